// Puts what the service sends anew in its place. The page is complete without.
const SILENT_MILLISECONDS = 40000; // the service says something every 15 seconds
const RETRY_MILLISECONDS = 3000;

const connection = document.getElementById("connection");
let source = null;
let timer = 0;

const tell = (state, text) => {
  if (connection.textContent !== text) connection.textContent = text;
  connection.dataset.state = state;
};

const put = (name, html) => {
  const place = document.getElementById(`live-${name}`);
  if (!place) return; // not on this page: rounds that are long over do not change
  const focused = place.contains(document.activeElement) ? document.activeElement.id : "";
  const made = document.createElement("template");
  made.innerHTML = html; // of the page's own service, which has escaped all names
  place.replaceChildren(made.content);
  if (focused) document.getElementById(focused)?.focus();
};

const lost = () => {
  source?.close();
  if (connection.dataset.state === "live") {
    const since = new Date().toLocaleTimeString();
    tell("lost", `Connection lost at ${since}. What is shown is as of then; trying again.`);
  } else if (!connection.dataset.state) {
    tell("lost", "Not live: no connection for news. Trying again.");
  }
  window.clearTimeout(timer);
  timer = window.setTimeout(listen, RETRY_MILLISECONDS);
};

const heard = () => {
  tell("live", "Live");
  window.clearTimeout(timer);
  timer = window.setTimeout(lost, SILENT_MILLISECONDS);
};

function listen() {
  window.clearTimeout(timer);
  source = new EventSource("v1/events");
  source.addEventListener("change", ({ data }) => {
    heard();
    for (const [name, html] of Object.entries(JSON.parse(data).page)) put(name, html);
  });
  source.addEventListener("alive", heard);
  source.addEventListener("error", lost);
}

// Nobody looks at a hidden page, and a browser has few connections to a host: it holds none.
const attend = () => {
  window.clearTimeout(timer);
  source?.close();
  if (!document.hidden) listen();
};
document.addEventListener("visibilitychange", attend);
window.addEventListener("pageshow", ({ persisted }) => { if (persisted) attend(); });
window.addEventListener("pagehide", () => {
  window.clearTimeout(timer);
  source?.close();
});
attend();
