// The public samples, their filters, and the votes on the chosen one. Text goes in as text, never as HTML.
const evidence = JSON.parse(document.getElementById("evidence").textContent);
const COLUMNS = 16, form = document.getElementById("filters"), grid = document.getElementById("grid");
const rows = Math.ceil(evidence.samples.length / COLUMNS);
const share = (value) => `${(value / 10).toFixed(1)} %`;
const named = (c) => (c < 0 ? "none" : evidence.classes[c]);
const element = (name, attributes, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

// What the server was taught about a sample: the last pseudo-label, or its target's class where there is none. On a
// page to pass on, which does not say: what it answers now.
const label = (sample) => {
  const last = sample.labels.at(-1);
  return last === undefined || last < 0 ? (sample.taught ?? sample.mixture ?? sample.server)[0] : last; // as far as known
};
const about = (sample) => `Sample ${sample.index}` + (sample.asked === undefined ? "" : `, ${evidence.findings[sample.asked]}?`);
const gated = evidence.gated; // Algorithm 1 was voted: a client counts where it is sure
const mayVote = (vote) => vote[4] <= evidence.iterations;
const facts = evidence.samples.map((sample) => ({
  label: label(sample),
  disagree: new Set(sample.votes.filter(mayVote).map((vote) => vote[0])).size > 1,
  changed: new Set(sample.labels.filter((c) => c >= 0)).size > 1,
  wrong: sample.truth !== null && label(sample) !== sample.truth,
  against: sample.own !== undefined && sample.own[0] !== label(sample), // on a page to pass on: its reader's answer
}));

const style = document.createElement("style");
if (!evidence.captions) style.textContent = `.thumb{background-image:url(data:image/png;base64,${evidence.sheet});background-size:${COLUMNS * 100}% ${rows * 100}%;` +
  `aspect-ratio:${evidence.size[0] / COLUMNS}/${evidence.size[1] / rows}}`;
document.head.append(style);
const thumb = (position) => {
  if (evidence.captions) return element("span", { class: "caption" }, evidence.captions[position]);
  const x = position % COLUMNS, y = Math.floor(position / COLUMNS);
  const place = `${(100 * x) / (COLUMNS - 1)}% ${rows > 1 ? (100 * y) / (rows - 1) : 0}%`;
  return element("span", { class: "thumb", style: `background-position:${place}`, "aria-hidden": "true" });
};

const tiles = evidence.samples.map((sample, position) => {
  const fact = facts[position], mark = fact.wrong ? "wrong" : fact.disagree ? "disagree" : "";
  const caption = evidence.captions ? `: ${evidence.captions[position]}` : "";
  const words = `${about(sample)}${caption}, ${evidence.clients.length ? "label" : "server:"} ${named(fact.label)}` + (fact.wrong ? `, truth ${named(sample.truth)}` : "");
  const tile = element("button", { type: "button", class: `tile ${mark}`, "aria-label": words, title: words, "aria-pressed": "false" },
    thumb(position), element("span", { class: "name", "aria-hidden": "true" }, (evidence.findings ? `${evidence.findings[sample.asked]}: ` : "") + named(fact.label)));
  tile.addEventListener("click", () => show(position));
  return tile;
});
grid.append(...tiles);

function filter() {
  const wanted = Object.fromEntries(new FormData(form));
  if (form.elements.stance) form.elements.stance.disabled = wanted.client === "";
  let count = 0;
  tiles.forEach((tile, position) => {
    const fact = facts[position];
    let visible = wanted.class === "" || fact.label === Number(wanted.class);
    if (wanted.client) {
      const vote = evidence.samples[position].votes[Number(wanted.client)];
      const stance = form.elements.stance.value;
      visible &&= stance === "votes" ? mayVote(vote) : stance === "with" ? vote[0] === fact.label : vote[0] !== fact.label;
    }
    for (const name of ["disagree", "changed", "wrong", "against"]) if (wanted[name]) visible &&= fact[name];
    tile.hidden = !visible;
    count += visible;
  });
  document.getElementById("count").textContent = `${count} of ${tiles.length} samples`;
}
form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(filter));
// From a client to look at, to what it said.
for (const link of document.querySelectorAll("[data-client]")) link.addEventListener("click", () => {
  form.reset();
  form.elements.client.value = link.dataset.client;
  form.elements.stance.value = "against";
  filter();
});

// Arrow keys go from sample to sample.
grid.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], visible = tiles.filter((tile) => !tile.hidden);
  const next = step && visible[visible.indexOf(document.activeElement) + step];
  if (next) { event.preventDefault(); next.focus(); }
});

function show(position) {
  const sample = evidence.samples[position], detail = document.getElementById("detail");
  tiles.forEach((tile, other) => tile.setAttribute("aria-pressed", other === position));
  const said = element("dl", {});
  const line = (word, value) => said.append(element("dt", {}, word), element("dd", {}, value));
  if (sample.mixture) line("label", named(facts[position].label));
  if (sample.truth !== null) line("truth", named(sample.truth));
  if (sample.own) line("you", `${named(sample.own[0])}, ${share(sample.own[1])}`);
  if (sample.taught) line("the server's target", `${named(sample.taught[0])}, ${share(sample.taught[1])}`);
  if (sample.mixture) line("clients mixed", `${named(sample.mixture[0])}, ${share(sample.mixture[1])}`);
  line("server, trained", `${named(sample.server[0])}, ${share(sample.server[1])}` + (sample.strange ? "; like no client's data" : ""));
  const head = element("div", { class: "chosen" }, thumb(position), said);
  const parts = [element("h3", {}, about(sample)), head];
  if (sample.labels.length > 1) {
    const steps = element("ol", { class: "steps" });
    sample.labels.forEach((c, t) => {
      const words = `iteration ${t + 1}: ${named(c)}` + (c < 0 ? (gated ? ", nobody was sure" : ", not among the surest") : gated ? `, G = ${(sample.score[t] / 1000).toFixed(2)}, ${sample.voters[t]} voted` : `, sure to ${share(sample.score[t])}`);
      const wrong = sample.truth !== null && c >= 0 && c !== sample.truth;
      steps.append(element("li", { title: words, class: c < 0 ? "none" : wrong ? "wrong" : "" }, c < 0 ? "–" : named(c)));
    });
    parts.push(element("h4", {}, "Pseudo-label, iteration by iteration"), steps);
  }
  if (!sample.votes.length) return detail.replaceChildren(...parts);
  const body = element("tbody", {}), heaviest = Math.max(1, ...sample.votes.map((vote) => vote[2]));
  sample.votes.map((vote, k) => [k, ...vote]).sort((a, b) => b[3] - a[3]).forEach(([k, c, sure, weight, trust, since]) => {
    const bar = element("span", { class: "track", "aria-hidden": "true" }, element("span", { class: "bar", style: `width:${(100 * weight) / heaviest}%` }));
    const cells = [element("th", { scope: "row" }, evidence.clients[k]), element("td", {}, named(c)),
      element("td", { class: "n" }, share(sure)), element("td", { class: "n" }, element("span", { class: "weight" }, bar, share(weight)))];
    if (gated) {
      cells.push(element("td", { class: "n" }, share(trust)));
      cells.push(element("td", { class: "n" }, evidence.left_out.includes(evidence.clients[k]) ? "left out" : since > evidence.iterations ? "never" : String(since)));
    }
    body.append(element("tr", c === facts[position].label ? { class: "with" } : {}, ...cells));
  });
  const names = ["client", "vote", "sure", "λ"].concat(gated ? ["C²", "votes from"] : []);
  const heading = element("tr", {}, ...names.map((name, n) => element("th", { scope: "col", class: n > 1 ? "n" : "" }, name)));
  const scroll = element("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Votes on this sample" },
    element("table", {}, element("thead", {}, heading), body));
  const note = gated
    ? "λ: weight in the mixture that the server learns. C²: weight of its vote on this class. Votes from: the first iteration in which it is sure enough of this sample." +
      (evidence.runoff ? " Votes only nominate a label; all models together choose among the nominated." : "")
    : "λ: weight of a client in the mixture of Eq. 12.";
  detail.replaceChildren(...parts, scroll, element("p", { class: "note" }, note));
}
filter();
show(Math.max(0, facts.findIndex((fact) => fact.disagree)));
