# SPDX-License-Identifier: GPL-2.0
"""Scenarios for tests of the lab."""

from lab.model import scenario

SMALL = """
[topology]
kind = "star"
hosts = 3
[link]
rate = "10Gbit"
delay = "2us"
[[flow]]
from = "h0..h1"
to = "h2"
bytes = "300KB"
"""


def build(**sections):
    """Return a scenario with one flow, unless the sections contain other values."""
    data = {"flow": [{"from": "h0", "to": "h1", "bytes": "1MB"}]}
    data.update(sections)
    return scenario.build(data, "test")


def refused(test, wanted, make, *args, **sections):
    """Check that a scenario is rejected with an error of one line that contains the words."""
    with test.assertRaises(scenario.ScenarioError) as caught:
        make(*args, **sections)
    message = str(caught.exception)
    test.assertNotIn("\n", message)
    for word in wanted:
        test.assertIn(word, message)
