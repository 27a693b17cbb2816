"""Shows the pictures of docs/gallery on pages, as the site is built."""

import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent / "gallery"
QUESTIONS = ("mirror", "pointer", "partner")
HOME = ("V", "D", "R", "FR", "R+V")
# Group -> the page that describes them -> names.
ENTRIES = {
    "Synthesizers": {
        "synthesizers/dot_product": ["V"],
        "synthesizers/dense": ["D", "FD", "local_dense(window=3)"],
        "synthesizers/random": ["R", "FR", "Fix"],
        "synthesizers/mixtures": ["R+V", "D+V", "R+D"],
        "synthesizers/distances": ["relative", "alibi + V", "t5_relative + V"],
        "synthesizers/hand_made": ["gaussian"],
        "mixers/pairs": ["additive"],
    },
    "Patterns and normalizers": {
        "attention": [
            "attention(V, pattern='local(window=3)')",
            "attention(V, pattern='stride(stride=4)')",
            "attention(V, pattern='blocks(number=1, block_size=4)')",
            "attention(V, normalizer='relu')",
            "attention(V, normalizer='sigmoid')",
            "attention(V, normalizer='softmax1')",
        ],
    },
    "Mixers": {
        "mixers/sparse": [
            "local(window=3)",
            "strided(stride=4)",
            "longformer(window=2)",
            "big_bird(block_size=2)",
        ],
        "mixers/linformer": ["linformer(rank=8)"],
        "mixers/kernels": ["linear", "performer"],
        "mixers/pairs": ["relu"],
        "mixers/convolutions": ["light_conv(width=7)", "dynamic_conv(width=7)"],
        "mixers/mlp": ["mlp_mixer", "gmlp"],
        "mixers/fnet": ["fnet"],
        "mixers/pooling": ["pooling(size=3)"],
        "mixers/compressed": ["compressed(stride=2)"],
        "mixers/learned_patterns": [
            "reformer(bucket_size=4)",
            "routing(clusters=4)",
            "sinkhorn(block_size=4)",
        ],
    },
}


def names():
    return [
        name
        for pages in ENTRIES.values()
        for of_page in pages.values()
        for name in of_page
    ]


def trained():
    """Returns name -> question -> `accuracy` and `file`."""
    return json.loads((FOLDER / "trained.json").read_text(encoding="utf-8"))


def fill(page):
    """Returns the Markdown of a page with pictures below its mark."""
    for make in (home, gallery):
        mark = f"<!-- pictures: {make.__name__} -->"
        if mark in page:
            page = page.replace(mark, f"{mark}\n\n{make(trained())}")
    return page


def picture(name, question, result, caption=""):
    percent = f"{result['accuracy']:.0%}"
    return (
        f'<figure><img src="gallery/{result["file"]}" width="16" height="16" '
        f'alt="{name} after training on {question}: {percent}">'
        f"<figcaption>{caption}{percent}</figcaption></figure>"
    )


def gallery(found):
    """The cards of all entries, by groups."""
    lines = []
    for title, pages in ENTRIES.items():
        lines += [f"## {title}", ""]
        lines.append('<div class="matrix-cards" markdown="block">')
        for page, of_page in pages.items():
            for name in of_page:
                pictures = "".join(
                    picture(name, question, result, f"{question} ")
                    for question, result in found[name].items()
                )
                lines += [
                    '<div class="matrix-card" markdown="block">',
                    f"[`{name}`]({page}.md)",
                    "",
                    f'<div class="matrix-row">{pictures}</div>',
                    "</div>",
                ]
        lines += ["</div>", ""]
    return "\n".join(lines)


def home(found):
    """A row for each question, a column for each of some synthesizers."""
    lines = ['<div class="matrix-grid">', "<span></span>"]
    lines += [f"<b>{name}</b>" for name in HOME]
    for question in QUESTIONS:
        lines.append(f"<b>{question}</b>")
        lines += [picture(x, question, found[x][question]) for x in HOME]
    return "\n".join([*lines, "</div>"])
