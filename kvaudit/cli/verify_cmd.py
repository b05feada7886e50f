"""`kvaudit verify`: the audit."""

from __future__ import annotations

from kvaudit.cli.exit_code import ExitCode
from kvaudit.cli.options import (
    Backend,
    BackendName,
    Color,
    ColorMode,
    ExitZero,
    Expect,
    FailOn,
    Files,
    Format,
    Ignore,
    Layer,
    Layer0Rows,
    MaxViolations,
    MinCoverage,
    Output,
    OutputFormat,
    Quiet,
    Request,
    Require,
    Select,
    SkipBytes,
    Slot,
    Tokenizer,
    families,
    layer0_source,
    layers,
    rules,
)
from kvaudit.core.severity import Severity

_EXIT_CODES = ", ".join(f"{code:d} {code.name.lower().replace('_', ' ')}" for code in ExitCode)

# \b keeps the lines of the paragraph below it.
HELP = f"""Check dumped KV pools against what they should hold.

A snapshot says what a pool holds; sequences or a plan beside it say what it should hold. The
verdict comes first, with how much of each family of checks it covers: index (the tables, no KV
needed), records (the canary's token, position and chain), bytes (KV bytes or their digests against
the stamped ones), identity (what layer 0 holds against tokens and positions, no stamp needed).

Identity is judged where a dump has tokens and the bytes of layer 0, a slot by the others of its
token, or by a table (--layer0). Unless --require names it, slots that it cannot judge lower no
verdict, and it never makes one clean alone.

Without sequences and plans, records are judged by the chains that they form, each one position
behind the one that it follows, and bytes wherever there is a record or a stamp. The verdict line
then reads "records by chain (no expectations)", and --require index leaves with 5.

\b
A verdict says nothing about:
  - slots that no request, cached prefix or plan entry names;
  - bytes without a stamp: the family reads "-", and columns are counted;
  - layers and halves outside the stamped columns; identity sees layer 0
    alone, and of a dump by itself the tokens that repeat;
  - what was wrong before it was stamped, NaN included: an equal digest
    proves that bytes did not change since, never that they were right;
  - a foreign chain or a wrong token that was stamped consistently, unless
    the expectations carry token ids;
  - without expectations, also pages in another order and records that are
    lost: what is left agrees with itself;
  - entries that a plan or an SWA map sends to slot 0: every launch skips
    them, and they are counted as padding;
  - slot 0 and freed slots: both hold garbage by right.

Exit codes: {_EXIT_CODES}.
"""


def verify(
    files: Files,
    *,
    expect: Expect = None,
    require: Require = None,
    min_coverage: MinCoverage = 100,
    skip_bytes: SkipBytes = False,
    layer0: Layer0Rows = "auto",
    tokenizer: Tokenizer = None,
    request: Request = None,
    slot: Slot = None,
    layer: Layer = None,
    select: Select = None,
    ignore: Ignore = None,
    fail_on: FailOn = Severity.ERROR,
    exit_zero: ExitZero = False,
    max_violations: MaxViolations = 100,
    backend: Backend = BackendName.AUTO,
    format: Format = OutputFormat.TEXT,  # noqa: A002 - the option's name
    output: Output = None,
    quiet: Quiet = False,
    color: Color = ColorMode.AUTO,
) -> ExitCode:
    """Audit the files, write the report, and leave with its exit code; HELP is its help."""
    from kvaudit import api
    from kvaudit.cli.carried_options import carried_options
    from kvaudit.cli.output import end_with, output_files
    from kvaudit.cli.screen import progress
    from kvaudit.core.audit_options import AuditOptions, Layer0
    from kvaudit.core.layout import SlotRanges
    from kvaudit.importers.tokenizer_file import read_tokenizer
    from kvaudit.render.blame_step import blame_step

    options = AuditOptions(
        require=families(require),
        min_coverage=min_coverage,
        skip_bytes=skip_bytes,
        layer0=layer0_source(layer0),
        request_ids=tuple(request or ()),
        slots=None if slot is None else SlotRanges.parse(slot),
        layers=layers(layer),
        select=rules(select),
        ignore=rules(ignore),
        fail_on=fail_on,
        max_violations=max_violations,
    )
    words = None if tokenizer is None else read_tokenizer(tokenizer)
    with progress(quiet=quiet) as observer:
        dataset = api.open(files, expect=tuple(expect or ()))
        beside = [path for path in (layer0, tokenizer) if path and path not in list(Layer0)]
        read = [*(file.path for file in dataset.files), *beside]
        copies = output_files(output, inputs=read)
        report = api.audit(dataset, backend=backend, options=options, observer=observer)
    carried = carried_options(expect=expect, layer0=layer0, tokenizer=tokenizer)
    return end_with(
        report,
        exit_zero=exit_zero,
        form=format,
        files=copies,
        color=color,
        quiet=quiet,
        words=words,
        step=blame_step(report, carried=carried),
    )
