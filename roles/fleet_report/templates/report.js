"use strict";
// Shows the numbers of the mark under the pointer or finger; the page is whole without it.
(function () {
  const tip = document.getElementById("tip");
  function show(event) {
    const mark = event.target.closest("figure path[aria-label]");
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.getAttribute("aria-label");
    const width = document.documentElement.clientWidth;
    tip.style.left = Math.max(8, Math.min(event.clientX + 12, width - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(8, event.clientY - tip.offsetHeight - 14) + "px";
  }
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
})();
