"""What stands around a page: what a reader can do with it, how much is read, what comes next.

The header's actions lead to the student's edition of this page's notebook, in Colab and as a file,
and to a new issue that says where the error is. What leads to the repository is there once its
address is (book.configure). Progress and the memory of chapters read are the work of reader.js, in
the reader's own browser.
"""

from pathlib import Path
from urllib.parse import urlencode, urlsplit

from docutils import nodes

import student
from book import chapter_of
from repository import facts

HERE = Path(__file__).parent
COLAB = "https://colab.research.google.com/github"


def new_issue(repository: str, title: str, source: str, version: str) -> str:
    """A new issue with all that the page knows; reader.js fills in the section on the screen."""
    body = f"Page: {title} ({source})\nSection: \nVersion: {version}\n\n"
    body += "**What it says, and what it should say:**\n\n"
    fields = {"title": f"Error in “{title}”", "body": body}
    return f"{repository}/issues/new?{urlencode(fields)}"


def actions(app, pagename, context) -> list[dict[str, str]]:
    """What the header offers on this page, in order."""
    options = app.config.html_theme_options
    repository = options.get("repository_url")
    source = context.get("sourcename")
    if not source:  # search, index: pages without a source of their own
        return []
    found = []
    if source.endswith(".ipynb"):
        name = source.rpartition("/")[2]
        if repository:
            url = f"{COLAB}{urlsplit(repository).path}/blob/{student.BRANCH}/{name}"
            found.append({"kind": "colab", "text": "Open in Colab", "url": url})
        url = context["pathto"](f"{student.FOLDER}/{name}", 1)
        found.append({"kind": "download", "text": "Download .ipynb", "url": url})
    if repository:
        version = facts(Path(app.confdir)).version
        url = new_issue(repository, app.env.titles[pagename].astext(), source, version)
        found.append({"kind": "report", "text": "Report an error here", "url": url})
    return found


def question_of(env, docname) -> str:
    """A chapter's first section is its question: `Who eats?`; of other pages nothing."""
    if chapter_of(docname) is None:
        return ""
    titles = [entry.astext() for entry in env.tocs[docname].findall(nodes.reference)]
    return titles[1] if len(titles) > 1 and titles[1].endswith("?") else ""


def surround(app, pagename, templatename, context, doctree):
    """Give the templates what they show; they are in templates/."""
    context["page_actions"] = actions(app, pagename, context)
    _, _, after = app.builder.relations.get(pagename, (None, None, None))
    context["next_question"] = question_of(app.env, after) if after else ""


def configure(app, config):
    """Runs after book.configure."""
    options = config.html_theme_options
    options["extra_footer"] += f"<p>{facts(HERE.parent).edition}.</p>"
    if repository := options.get("repository_url"):
        links = {"Source": "", "Report a mistake": "/issues/new/choose", "Discuss": "/discussions"}
        found = [f'<a href="{repository}{path}">{text}</a>' for text, path in links.items()]
        options["extra_footer"] += f"<p>{' · '.join(found)}</p>"
    config.templates_path = [str(HERE / "templates"), *config.templates_path]


def setup(app):
    app.connect("config-inited", configure, priority=900)
    app.add_js_file("reader.js", loading_method="defer", priority=400)  # predict.js needs it
    app.add_js_file("search.js", loading_method="defer")
    app.connect("html-page-context", surround)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
