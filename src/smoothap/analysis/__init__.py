"""The paper's analyses as commands: numbers first, figures by `report`."""
