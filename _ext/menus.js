// The theme's menus without Bootstrap, of which it uses nothing else.
{
  const BUTTON = '[data-bs-toggle="dropdown"]';
  const menuOf = (button) => button.parentElement.querySelector(".dropdown-menu");

  const set = (button, open) => {
    button.classList.toggle("show", open);
    button.setAttribute("aria-expanded", open);
    menuOf(button).classList.toggle("show", open);
  };

  document.addEventListener("click", ({ target }) => {
    const pressed = target.closest(BUTTON);
    for (const button of document.querySelectorAll(BUTTON)) {
      set(button, button === pressed && !button.classList.contains("show"));
    }
  });

  document.addEventListener("keydown", (event) => {
    const button = event.target.closest(".dropdown")?.querySelector(BUTTON);
    if (!button) return;
    if (event.key === "Escape") {
      set(button, false);
      button.focus();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      set(button, true);
      const items = [...menuOf(button).querySelectorAll("a, button")];
      const step = event.key === "ArrowDown" ? 1 : -1;
      const at = items.indexOf(document.activeElement);
      items.at(at < 0 ? (step - 1) / 2 : (at + step) % items.length).focus();
    }
  });
}
