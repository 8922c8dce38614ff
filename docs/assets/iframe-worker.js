/* Search from file://: browsers start no workers there, so the search runs in a hidden frame. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.frame = frame.contentWindow
      this.frame.toPage = data => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      }
      const page = this.frame.document
      page.open()
      page.write(
        "<!doctype html><script>" +
        "postMessage = data => toPage(data);" +
        "importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((loaded, failed) => {" +
        "const script = document.createElement('script');" +
        "script.src = url; script.onload = loaded; script.onerror = failed;" +
        "document.head.appendChild(script) })), Promise.resolve());" +
        "</script><script src=\"" + url + "\"></script>"
      )
      page.close()
      this.ready = new Promise(ready => frame.addEventListener("load", ready))
    }
    postMessage(data) {
      this.ready.then(() => this.frame.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.frame.frameElement.remove()
    }
  }
}
