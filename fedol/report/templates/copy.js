// A button on every block of code that puts it on the clipboard, and says so.
for (const block of document.querySelectorAll("pre")) {
  const frame = document.createElement("div"), button = document.createElement("button");
  frame.className = "copyable";
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.setAttribute("aria-live", "polite");
  button.setAttribute("aria-label", `Copy: ${block.getAttribute("aria-label") || "code"}`);
  block.replaceWith(frame);
  frame.append(button, block);
  const byHand = () => {  // where the browser gives no clipboard to a file
    getSelection().selectAllChildren(block);
    return document.execCommand("copy");
  };
  button.addEventListener("click", async () => {
    let copied = true;
    try { await navigator.clipboard.writeText(block.textContent); } catch { copied = byHand(); }
    button.textContent = copied ? "Copied" : "Select it and press Ctrl-C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}
