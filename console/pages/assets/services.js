// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// This script renews the page of services while it is seen. It asks for the part that changes, waits for the answer, and makes the page the
// same, element by element: what a person has focused, scrolled, opened or selected stays. It writes no HTML: the browser reads the answer as
// a document, in which nothing runs.
"use strict";
(() => {
  const retryAfter = 2000, answerTimeout = 40000;
  const live = document.getElementById("live"), lost = document.getElementById("lost");
  const news = document.getElementById("news"), pause = document.getElementById("pause");
  let paused = false, asking = null, ended = false, waiting = 0;

  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");

  // renew makes an element like another one, which may lose its children.
  function renew(element, like) {
    for (const {name} of [...element.attributes]) {
      if (!like.hasAttribute(name) && name !== "open") element.removeAttribute(name); // a person opens and closes details
    }
    for (const {name, value} of like.attributes) {
      if (name !== "open" && element.getAttribute(name) !== value) element.setAttribute(name, value);
    }
    let at = element.firstChild;
    for (const next of [...like.childNodes]) {
      const same = next.id && document.getElementById(next.id);
      if (same && same.parentNode === element && same !== at) {
        element.insertBefore(same, at);
        at = same;
      }
      if (!at || !alike(at, next)) {
        element.insertBefore(document.adoptNode(next), at);
        continue;
      }
      if (at.nodeType !== Node.ELEMENT_NODE) {
        if (at.nodeValue !== next.nodeValue) at.nodeValue = next.nodeValue;
      } else if (!at.isEqualNode(next)) {
        renew(at, next);
      }
      at = at.nextSibling;
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  function show(text) {
    lost.hidden = !text;
    if (lost.textContent !== text) lost.textContent = text;
  }

  function answered(request) {
    const next = request.status === 200 && request.response && request.response.getElementById("live");
    asking = null;
    if (paused) return;
    if (next) {
      if (next.dataset.news !== live.dataset.news) news.textContent = next.dataset.news;
      renew(live, next);
    }
    if (next || request.status === 204) { // or nothing has changed
      show("");
      askLater();
      return;
    }
    // Another page, such as the one to sign in, or a refusal.
    ended = request.status !== 0 && request.status < 500;
    show(ended ? "This page is not renewed any more. Load it again." : "The console, or the instance, does not answer. The page shows its last answer.");
    askIn(retryAfter);
  }

  function askIn(milliseconds) {
    clearTimeout(waiting);
    waiting = setTimeout(ask, milliseconds);
  }

  // askLater asks when there is another picture. The console answers at once, or when it has one.
  function askLater() {
    const every = Number(live.dataset.every);
    if (every) askIn(every);
    else ask();
  }

  function ask() {
    if (asking || ended || paused || document.hidden) return;
    const request = asking = new XMLHttpRequest();
    request.open("GET", "services/live?after=" + live.dataset.version);
    request.responseType = "document";
    request.timeout = answerTimeout;
    request.onloadend = () => answered(request);
    request.send();
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    if (paused && asking) asking.abort();
    ask();
  });
  document.addEventListener("visibilitychange", ask);
  askLater();
})();
