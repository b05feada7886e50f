"""`kvaudit explain`: a rule, a saved report or an engine's log in words."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kvaudit.cli.exit_code import ExitCode
from kvaudit.cli.options import Color, ColorMode, Format, OutputFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.text import Text

    from kvaudit.core.rule_text import RuleText

STDIN: Final = "-"
RULE_SCHEMA: Final = "kvaudit.rule/1"

_RULE_ID: Final = re.compile(r"kv\d+", re.IGNORECASE)

Subject = Annotated[
    str,
    typer.Argument(
        metavar="RULE|LOG|REPORT",
        help="A rule's id or name; an engine's log, or - for stdin; a report saved as JSON.",
    ),
]


def explain(
    subject: Subject,
    *,
    format: Format = OutputFormat.TEXT,  # noqa: A002 - the option's name
    color: Color = ColorMode.AUTO,
) -> ExitCode:
    """Explain a rule, a saved report, or the lines of a canary in an engine's log.

    A rule: what it means, the evidence it needs, likely causes, what to do next. A report: each
    finding with its rule. A log: violations in groups, roots first, what the hashes in it prove,
    what was not checked, which mechanisms leave the same lines, and what to dump next. Pasted,
    wrapped, prefixed and mixed text is read too. Nothing is judged: the exit code is 0.
    """
    from kvaudit.cli.screen import write_document
    from kvaudit.importers.rule_page import rule_texts

    rules = rule_texts()
    rule = _rule_named(subject, rules)
    if rule is not None:
        from kvaudit.render.rule_text import rule_lines

        write_document(
            {"schema": RULE_SCHEMA, **rule.to_dict()}, rule_lines(rule), form=format, color=color
        )
        return ExitCode.CLEAN
    document, lines = _explained(subject, rules)
    write_document(document, lines, form=format, color=color)
    return ExitCode.CLEAN


def _rule_named(subject: str, rules: Mapping[str, RuleText]) -> RuleText | None:
    for rule in rules.values():
        if subject.lower() in {rule.id.lower(), rule.name}:
            return rule
    if _RULE_ID.fullmatch(subject):
        from kvaudit.errors import ConfigError

        raise ConfigError(
            f"there is no rule {subject}",
            hint=f"the rules are {', '.join(rules)}; of a file of that name write ./{subject}",
        )
    return None


def _explained(subject: str, rules: Mapping[str, RuleText]) -> tuple[dict[str, Any], list[Text]]:
    from kvaudit.core.log_report import LogReport
    from kvaudit.importers.explained_file import explain_path, explain_stream
    from kvaudit.render.log_report import log_lines
    from kvaudit.render.saved_report import saved_report_document, saved_report_lines

    if subject == STDIN:
        found = explain_stream(sys.stdin.buffer, path="stdin")
    else:
        found = explain_path(subject)
    if isinstance(found, LogReport):
        return found.to_dict(), log_lines(found, rules)
    return saved_report_document(found, rules), saved_report_lines(found, rules)
