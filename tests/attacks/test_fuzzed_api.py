"""The API under schemathesis: whatever its own description allows, and what it does not, is answered as described."""

import pytest
from drawn_people import drawn_finder
from guarantees import short_or_long
from hypothesis import HealthCheck, given, settings
from page_albums import pixel_album

from smoothap.models.faces.people import PeopleFinder
from smoothap.server.app import create_app

schemathesis = pytest.importorskip("schemathesis")
pytestmark = pytest.mark.guarantee(17)
EXAMPLES = short_or_long(3, 500)
HOST = {"host": "127.0.0.1"}
# A vector is text that decodes to that many numbers of this album, which a schema cannot say. This server has no
# token, so that everybody may ask; where there is one, tests/server/test_gate.py sees that it is asked for.
checks = pytest.importorskip("schemathesis.specs.openapi.checks")
NOT_SAID = [checks.positive_data_acceptance, checks.ignored_auth]


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzzed")
    album = pixel_album(folder / "letters", letters="ARG", faces=["DejaVuSans"], path=folder / "album")
    album.collections.mark("A", right=[0], wrong=[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PeopleFinder, "open", staticmethod(drawn_finder))
        album.look_for_people()
        album.find_people(progress=False)
        app = create_app({"letters": album})
        yield schemathesis.openapi.from_asgi("/api/openapi.json", app, headers=HOST)


def finite(schema):
    """All operations whose answer has an end."""
    operations = [each.ok() for each in schema.get_all_operations()]
    return [each for each in operations if not each.path.endswith("/events")]


def test_every_answer_is_one_that_is_described(schema):
    operations = finite(schema)
    assert len(operations) == 51
    for operation in operations:

        @settings(max_examples=EXAMPLES, deadline=None)
        @given(case=operation.as_strategy())
        def answered_as_described(case):
            response = case.call(headers=HOST)
            assert response.status_code < 500
            case.validate_response(response, excluded_checks=NOT_SAID)

        answered_as_described()


def test_what_the_description_forbids_is_refused(schema):
    for operation in finite(schema):
        if operation.path == "/api/v1/albums":  # takes nothing, so nothing can be wrong about it
            continue
        strategy = operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=strategy)
        def refused(case):
            response = case.call(headers=HOST)
            assert response.status_code < 500, case.as_curl_command()

        refused()
