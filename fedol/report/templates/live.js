// Puts in what has changed: each message has the parts of the page, by their ids, as the server would write them.
const connection = document.getElementById("connection");
const source = new EventSource(connection.dataset.events);
const say = (words) => { if (connection.textContent !== words) connection.textContent = words; };
source.addEventListener("message", (event) => {
  say("");
  for (const [id, html] of Object.entries(JSON.parse(event.data))) {
    const part = document.getElementById(id);
    if (part && part.innerHTML !== html) part.innerHTML = html;
  }
});
source.addEventListener("end", () => { source.close(); say("The server has ended."); });
source.addEventListener("error", () => {
  say(source.readyState === EventSource.CLOSED ? "No connection to the server; load the page again." : "No connection to the server; trying again.");
});
