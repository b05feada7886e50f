"""A rule in words."""

from __future__ import annotations

from rich.text import Text

from kvaudit.core.rule_text import RuleText
from kvaudit.render.lines import aligned, heading, line


def rule_lines(rule: RuleText) -> list[Text]:
    """The rule's name and weight, and a line for each thing to know of it."""
    return [
        heading(f"{rule.id} {rule.name} ({rule.severity})"),
        line(rule.meaning, indent=1),
        *aligned(
            [
                ("evidence", rule.evidence),
                *(
                    ("likely causes" if not number else "", cause)
                    for number, cause in enumerate(rule.causes)
                ),
                ("next", rule.next_step),
            ]
        ),
    ]
