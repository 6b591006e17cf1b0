from smoothap.plots.text import text_table

ROWS = [{"loss": "ours|1", "batch": 4096, "ms": 1.23456, "fast": True}, {"loss": "other", "batch": 64, "ms": 12345.6}]


def test_numbers_stand_to_the_right_and_a_dash_where_there_is_none():
    assert text_table(ROWS).splitlines() == [
        "loss    batch      ms  fast",
        "ours|1  4,096   1.235   yes",
        "other      64  12,346     –",
    ]


def test_markdown_has_the_sides_of_its_columns_and_no_bar_inside_a_cell():
    assert text_table(ROWS, text=["loss", "fast"], markdown=True).splitlines() == [
        "| loss    | batch |     ms | fast |",
        "| ------- | ----: | -----: | ---- |",
        "| ours\\|1 | 4,096 |  1.235 | yes  |",
        "| other   |    64 | 12,346 | –    |",
    ]
