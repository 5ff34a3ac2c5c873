"""The app: four tabs over the pages that the other modules make. Gradio lays out and carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import gradio as gr

from ..engines import ENGINES
from ..errors import InputError
from ..schemes import SCHEMES
from . import attention, model, positions, studies, trial
from .address import Asked, marker
from .positions import BASES, FREE, HEAD_DIMS, HEADS, LENGTHS, Setting
from .studies import Library
from .view import page, paragraph, problem

TITLE = "longreach explorer"

LEAD = (
    "How far past its training length does a transformer reach, why does it stop there, and which "
    "repair helps? Every number here is worked out by longreach, or was measured by it."
)

TABS = {
    "positions": "Positions",
    "model": "My model",
    "studies": "Past the trained length",
    "trial": "Try it",
}

CANDIDATES = ("yarn", "llama3", "ntk", "dynamic", "linear")
"""Repairs that the clinic proposes, before a config says which of them apply."""

TARGETS = (1, 10**9)
"""Of a target length, in tokens."""

FAST: dict[str, Any] = {"show_progress": "hidden", "trigger_mode": "always_last"}
"""Of events that answer soon."""

INSTANT: dict[str, Any] = FAST | {"queue": False}
"""Of those that answer within milliseconds: to queue, and to be told of it, takes longer."""

DROP = (
    '<div class="lr-drop"><label>Or drop config.json here, or choose it; it is read by this page '
    'and goes into the box above: <input type="file" accept=".json,application/json"></label>'
    '<output aria-live="polite"></output></div>'
)


def build(library: Library, *, allow_hub: bool = False) -> gr.Blocks:
    """The app over these studies.

    Every function gets all it works on from the page, and keeps nothing of it: people who use the
    app at the same time share no state but the studies.
    """
    app: gr.Blocks
    with gr.Blocks(title=TITLE, analytics_enabled=False) as app:
        gr.HTML(f"<header><h1>{TITLE}</h1><p>{LEAD}</p></header>", elem_id="lr-head")
        with gr.Tabs(elem_id="lr-tabs") as tabs:
            parts = {}
            for name, title in TABS.items():
                with gr.Tab(title, id=name, elem_id=f"lr-tab-{name}") as tab:
                    parts[name] = MADE[name](tab, library, allow_hub)

        def select(request: gr.Request) -> Any:
            """The tab that the address names, at once; what it shows may take a moment."""
            name = Asked(dict(request.query_params)).text("tab", TABS)
            return gr.skip() if name is None else gr.Tabs(selected=name)

        def restore(request: gr.Request) -> dict[Any, Any]:
            """What the address asks for, of the tab that it names."""
            asked = Asked(dict(request.query_params))
            name = asked.text("tab", TABS)
            if name is None:
                return {tabs: gr.skip()}
            part = parts[name]
            return dict(zip(part.outputs, part.addressed(asked), strict=True))

        outputs = [tabs, *(one for part in parts.values() for one in part.outputs)]
        quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        app.load(select, None, tabs, **quiet).then(restore, None, outputs, **quiet)
    return app


Answer = Callable[[Asked], list[Any]]
"""What an address asks for, one value for each output."""


class Part:
    """A tab: components that an address changes when the page is loaded, and to what."""

    def __init__(self, outputs: Sequence[Any], addressed: Answer) -> None:
        self.outputs = outputs
        self.addressed = addressed


def careful(answer: Callable[..., str], *given: Any) -> str:
    """The answer, or what is wrong with what was given."""
    try:
        return answer(*given)
    except InputError as error:
        return problem(str(error))


# Positions


def setting_of(
    head_dim: float,
    base: float,
    trained: float,
    target: float,
    repairs: Sequence[str],
    heads: float,
) -> Setting:
    """From where the sliders stand: base and lengths by the number of the stop.

    Raises InputError for a place where no slider can stand.
    """
    return Setting(
        head_dim=int(head_dim),
        base=stop("base", BASES, base),
        trained_length=stop("trained length", LENGTHS, trained),
        target_length=stop("target length", LENGTHS, target),
        repairs=tuple(name for name in FREE if name in repairs),
        heads=int(heads),
    )


def stop(name: str, stops: Sequence[Any], number: float) -> Any:
    """What a slider stands for."""
    if not 0 <= number < len(stops):
        raise InputError(f"the slider of the {name} has no stop {number}")
    return stops[int(number)]


@lru_cache(maxsize=128)
def upper(setting: Setting) -> str:
    """What a slider changes first: pairs and repairs."""
    views = (positions.wavelengths, positions.clocks, positions.speeds, positions.resolution)
    return page([each(setting) for each in views]) + marker(
        "positions",
        head_dim=setting.head_dim,
        base=f"{setting.base:.10g}",
        trained=setting.trained_length,
        target=setting.target_length,
        repairs=",".join(setting.repairs),
        heads=setting.heads,
    )


@lru_cache(maxsize=128)
def lower(setting: Setting) -> str:
    """The rest: curves over distance."""
    views = (positions.alignment, positions.trap, positions.alibi, positions.t5)
    return page([each(setting) for each in views])


def labels(setting: Setting) -> list[str]:
    """Of the sliders for base, trained and target length: what they stand for."""
    return [
        f"Base: {setting.base:,.10g}",
        f"Trained length: {setting.trained_length:,} tokens",
        f"Target length: {setting.target_length:,} tokens",
    ]


def positions_tab(tab: gr.Tab, library: Library, allow_hub: bool) -> Part:
    """Sliders, and what positions look like where they stand."""
    start = Setting()
    named = labels(start)
    with gr.Row(equal_height=False):
        head_dim = gr.Slider(
            HEAD_DIMS[0],
            HEAD_DIMS[-1],
            start.head_dim,
            step=HEAD_DIMS[1] - HEAD_DIMS[0],
            label="Head dimension",
            elem_id="lr-head-dim",
            buttons=[],
        )
        base = stops("lr-base", named[0], BASES, start.base)
        trained = stops("lr-trained", named[1], LENGTHS, start.trained_length)
        target = stops("lr-target", named[2], LENGTHS, start.target_length)
    with gr.Row(equal_height=False):
        repairs = gr.CheckboxGroup(
            list(FREE), value=list(start.repairs), label="Repairs", elem_id="lr-repairs"
        )
        heads = gr.Slider(
            HEADS[0],
            HEADS[-1],
            start.heads,
            step=1,
            label="Heads of ALiBi",
            elem_id="lr-heads",
            buttons=[],
        )
    first = gr.HTML(upper(start), elem_id="lr-positions")
    second = gr.HTML(lower(start), elem_id="lr-distances")
    controls: list[Any] = [head_dim, base, trained, target, repairs, heads]

    def moved(*places: Any) -> list[Any]:
        """The first panel and what the sliders are called now."""
        try:
            setting = setting_of(*places)
        except InputError as error:
            return [problem(str(error)), *(gr.skip() for _ in range(3))]
        return [upper(setting), *(gr.Slider(label=label) for label in labels(setting))]

    def rest(*places: Any) -> str:
        """The second panel."""
        return careful(lambda: lower(setting_of(*places)))

    changed = gr.on(
        [each.input for each in controls],
        moved,
        controls,
        [first, base, trained, target],
        api_name="positions",
        **INSTANT,
    )
    changed.then(rest, controls, second, api_name="distances", **INSTANT)

    def addressed(asked: Asked) -> list[Any]:
        """Sliders and panels as an address has them, each at the nearest stop."""
        bases = asked.number("base", BASES[0], BASES[-1]) or start.base
        lengths = {
            key: asked.number(key, LENGTHS[0], LENGTHS[-1]) or default
            for key, default in (
                ("trained", start.trained_length),
                ("target", start.target_length),
            )
        }
        kept = asked.texts("repairs", FREE)
        setting = Setting(
            head_dim=int(
                positions.nearest_stop(
                    asked.number("head_dim", 8, 256) or start.head_dim, HEAD_DIMS
                )
            ),
            base=positions.nearest_stop(bases, BASES),
            trained_length=int(positions.nearest_stop(lengths["trained"], LENGTHS)),
            target_length=int(positions.nearest_stop(lengths["target"], LENGTHS)),
            repairs=start.repairs if kept is None else tuple(kept),
            heads=asked.whole("heads", HEADS[0], HEADS[-1]) or start.heads,
        )
        named = labels(setting)
        return [
            setting.head_dim,
            gr.Slider(value=BASES.index(setting.base), label=named[0]),
            gr.Slider(value=LENGTHS.index(setting.trained_length), label=named[1]),
            gr.Slider(value=LENGTHS.index(setting.target_length), label=named[2]),
            list(setting.repairs),
            setting.heads,
            upper(setting),
            lower(setting),
        ]

    return Part([*controls, first, second], addressed)


def stops(name: str, label: str, values: Sequence[Any], start: Any) -> gr.Slider:
    """A slider over values that are not evenly apart; its label says what it stands for."""
    return gr.Slider(
        0,
        len(values) - 1,
        values.index(start),
        step=1,
        label=label,
        elem_id=name,
        elem_classes=["lr-stops"],
        buttons=[],
    )


# My model


def model_tab(tab: gr.Tab, library: Library, allow_hub: bool) -> Part:
    """A config goes in; a diagnosis and a block come out."""
    what = "config.json, pasted" + (", or a model's name (organisation/name)" if allow_hub else "")
    with gr.Row(equal_height=False):
        with gr.Column(scale=2, min_width=300):
            config = gr.Textbox(
                label=what,
                lines=9,
                max_lines=18,
                elem_id="lr-config",
                max_length=model.LARGEST,
                placeholder='{"model_type": "llama", ...',
            )
            gr.HTML(DROP)
        with gr.Column(scale=1, min_width=260):
            target = gr.Number(
                32768,
                label="Target length (tokens)",
                precision=0,
                minimum=TARGETS[0],
                maximum=TARGETS[1],
                elem_id="lr-model-target",
            )
            repair = gr.Radio(list(CANDIDATES), value="yarn", label="Repair", elem_id="lr-repair")
            engine = gr.Dropdown(
                list(ENGINES), value="vllm", label="Engine", elem_id="lr-engine", filterable=False
            )
            with gr.Row():
                button = gr.Button("Diagnose", variant="primary", elem_id="lr-diagnose")
                example = gr.Button("Fill in an example", elem_id="lr-example")
    block = gr.HTML("", elem_id="lr-block")
    shown = gr.HTML("", elem_id="lr-diagnosis")
    controls = [config, target, repair, engine]

    def diagnosed(text: str, length: float | None, chosen: str, spec: str) -> list[Any]:
        """The block, the diagnosis, and the repairs to choose from."""
        where = marker("model", target=int(length or 0), repair=chosen, engine=spec)
        try:
            found = model.examined(
                text, None if length is None else int(length), allow_hub=allow_hub
            )
        except InputError as error:
            return ["", problem(str(error)) + where, gr.skip()]
        known = model.repairs_of(found)
        chosen = chosen if chosen in known or not known else known[0]
        written = (
            careful(lambda: model.prescription_html(model.prescribed(found, chosen, spec)))
            if known
            else ""
        )
        # With nothing to choose from, the list stays as it was.
        choices = gr.Radio(choices=known, value=chosen) if known else gr.skip()
        return [written, model.diagnosis_html(found) + where, choices]

    outputs = [block, shown, repair]
    button.click(diagnosed, controls, outputs, api_name="diagnose", show_progress="minimal")
    gr.on(
        [target.submit, repair.input, engine.input],
        diagnosed,
        controls,
        outputs,
        api_visibility="private",
        **FAST,
    )
    example.click(lambda: model.EXAMPLE, None, config, api_visibility="private", **FAST).then(
        diagnosed, controls, outputs, api_visibility="private", **FAST
    )

    def addressed(asked: Asked) -> list[Any]:
        """Length, repair and engine; a config is nobody else's and does not stand in an address."""
        return [
            asked.whole("target", *TARGETS) or gr.skip(),
            asked.text("repair", CANDIDATES) or gr.skip(),
            asked.text("engine", ENGINES) or gr.skip(),
        ]

    return Part([target, repair, engine], addressed)


# Past the trained length


def studies_tab(tab: gr.Tab, library: Library, allow_hub: bool) -> Part:
    """A study from the list, with its figures and what they show."""
    names = library.names
    with gr.Row(equal_height=False):
        study = gr.Dropdown(
            names,
            value=names[0] if names else None,
            label="Study",
            min_width=240,
            elem_id="lr-study",
            filterable=False,
        )
        task = gr.Dropdown(
            library.tasks,
            value=studies.EVERY,
            label="Task",
            min_width=240,
            elem_id="lr-task",
            filterable=False,
        )
    words = gr.HTML("", elem_id="lr-words")
    figures = gr.HTML("", elem_id="lr-figures")
    with gr.Accordion("Attention maps", open=False, visible=False, elem_id="lr-maps") as maps:
        with gr.Row(equal_height=False):
            scheme = gr.Dropdown(
                list(SCHEMES), label="Scheme", filterable=False, elem_id="lr-scheme"
            )
            length = gr.Dropdown(
                list(range(1, attention.LONGEST + 1)), label="Length", elem_id="lr-map-length"
            )
            look = gr.Button("Show", elem_id="lr-look")
        map_ = gr.HTML("", elem_id="lr-map")

    def looked(name: str, chosen: str, which: str, at: int | None) -> str:
        """The attention map."""
        return careful(
            lambda: (
                page([attention.view(library, name, chosen, which, at or 0)])
                + marker("studies", study=name, task=chosen, scheme=which, length=at)
            )
        )

    def opened(name: str, wanted: str, which: str = "", at: int | None = None) -> list[Any]:
        """The study's page, its tasks, and whether there are models to look into.

        which, at: scheme and length of the map that stands; kept if the study has them.
        """
        try:
            found = library.get(name)
            known = studies.choices(found)
            chosen = wanted if wanted in known else known[0]
            about = attention.choices(library, name)
        except InputError as error:
            return [problem(str(error)), "", *(gr.skip() for _ in range(6))]
        where = marker("studies", study=name, task=chosen)
        shown = [
            studies.words_html(found, chosen) + where,
            studies.figures_html(found, chosen),
            gr.Dropdown(choices=known, value=chosen, visible=len(known) > 1),
            gr.Accordion(visible=bool(about.schemes)),
        ]
        if not about.schemes:
            return [*shown, *(gr.skip() for _ in range(3)), ""]
        which = which if which in about.schemes else about.schemes[0]
        at = at if at in about.lengths else about.trained_length
        return [
            *shown,
            gr.Dropdown(choices=list(about.schemes), value=which),
            gr.Dropdown(choices=list(about.lengths), value=at),
            gr.Button(visible=about.made),
            # Recorded maps are there at once; to make one, a model is run, and only if asked for.
            "" if about.made else looked(name, chosen, which, at),
        ]

    outputs = [words, figures, task, maps, scheme, length, look, map_]
    study.input(opened, [study, task], outputs, api_name="study", **FAST)
    task.input(opened, [study, task, scheme, length], outputs, api_visibility="private", **FAST)

    def addressed(asked: Asked) -> list[Any]:
        """The study and task that an address names, or the first, and their page."""
        name = asked.text("study", names) or study.value
        which, at = asked.text("scheme", SCHEMES), asked.whole("length", 1, attention.LONGEST)
        wanted = asked.text("task", library.tasks) or studies.EVERY
        shown = opened(name, wanted, which or "", at)
        if which is not None and shown[-1]:
            shown[outputs.index(maps)] = gr.Accordion(visible=True, open=True)
        return [name, *shown]

    opens(tab, addressed, words, [study, *outputs], "studies")

    gr.on(
        [look.click, scheme.input, length.input],
        looked,
        [study, task, scheme, length],
        map_,
        api_name="attention",
    )
    return Part([study, *outputs], addressed)


# Try it


def trial_tab(tab: gr.Tab, library: Library, allow_hub: bool) -> Part:
    """A string to copy, and what small models make of it."""
    known = trial.schemes()
    gr.HTML(
        '<p class="lr-seen">Small models were trained to write a string of letters again. They '
        "have met strings of up to the trained length. Lengthen the string and watch where each "
        "goes wrong.</p>"
    )
    with gr.Row(equal_height=False):
        length = gr.Slider(
            1, trial.LONGEST, 8, step=1, label="Length (symbols)", elem_id="lr-length", buttons=[]
        )
        number = gr.Slider(
            0,
            trial.STRINGS,
            0,
            step=1,
            label="Which string",
            elem_id="lr-number",
            buttons=[],
        )
        schemes = gr.CheckboxGroup(known, value=known, label="Schemes", elem_id="lr-schemes")
    with gr.Row(equal_height=False):
        text = gr.Textbox(
            label="The string, or one of your own: letters a to t with spaces between",
            elem_id="lr-prompt",
            max_length=trial.LONGEST_TEXT,
            scale=4,
        )
        write = gr.Button("Write", elem_id="lr-write", scale=0, min_width=120)
    waiting = paragraph("The models are being loaded, which takes a moment the first time.")
    shown = gr.HTML(waiting, elem_id="lr-answers")
    drawn = gr.HTML("", elem_id="lr-trial")

    def answered(string: str, chosen: Sequence[str], mark: str = "") -> list[str]:
        """What the models write, and how often a string of that length comes out whole."""
        try:
            kept = [name for name in known if name in chosen] or known
            found = trial.answers(string, kept)
            at = len(string.split())
            where = mark or marker("trial", text=string, schemes=",".join(kept))
            return [
                trial.answers_html(string, found) + where,
                page([trial.chart(at, kept)]),
            ]
        except InputError as error:
            return [problem(str(error)), ""]

    def generated(size: float, which: float, chosen: Sequence[str]) -> list[str]:
        """A numbered string of a length, and the answers to it."""
        try:
            string = trial.prompt(int(which), int(size))
        except InputError as error:
            return ["", problem(str(error)), ""]
        kept = ",".join(name for name in known if name in chosen)
        mark = marker("trial", length=int(size), number=int(which), schemes=kept)
        return [string, *answered(string, chosen, mark)]

    made = [text, shown, drawn]
    gr.on(
        [length.input, number.input],
        generated,
        [length, number, schemes],
        made,
        api_name="generate",
        **FAST,
    )
    gr.on(
        [write.click, text.submit, schemes.input],
        partial(answered, mark=""),
        [text, schemes],
        [shown, drawn],
        api_name="answer",
        **FAST,
    )

    def addressed(asked: Asked) -> list[Any]:
        """The string that an address has, or asks for, and the answers to it."""
        kept = asked.texts("schemes", known) or known
        size = asked.whole("length", 1, trial.LONGEST) or length.value
        which = asked.whole("number", 0, trial.STRINGS) or number.value
        typed = asked.raw("text")
        answers = generated(size, which, kept) if typed is None else [typed, *answered(typed, kept)]
        return [size, which, kept, *answers]

    outputs = [length, number, schemes, *made]
    opens(tab, addressed, text, outputs, "trial")
    return Part(outputs, addressed)


def opens(tab: gr.Tab, addressed: Answer, there: Any, outputs: Sequence[Any], name: str) -> None:
    """Fills a tab when it is opened for the first time.

    there: what is empty until then. An address that names the tab opens it too, though the browser
    may not say so: then it is filled with the rest of what the address asks for (`Part`), or twice,
    which makes no difference.
    """

    def first(filled: str, request: gr.Request) -> list[Any]:
        if filled:
            return [gr.skip() for _ in outputs]
        return addressed(Asked(dict(request.query_params), name))

    tab.select(first, [there], list(outputs), api_visibility="private", **FAST)


MADE = {
    "positions": positions_tab,
    "model": model_tab,
    "studies": studies_tab,
    "trial": trial_tab,
}
"""What makes each tab."""
