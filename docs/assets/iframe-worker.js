// Search on file://, where browsers refuse workers: a worker's script runs in a
// hidden frame instead. Material looks for `IFrameWorker` in the parent window.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inner = frame.contentWindow
      this.inner.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent("message", { data }))
      this.inner.importScripts = (...urls) =>
        urls.reduce((before, one) => before.then(() => this.load(one)), Promise.resolve())
      this.loaded = this.load(url)
    }

    load(url) {
      const script = this.inner.document.createElement("script")
      script.src = url
      const done = new Promise((resolve, reject) => {
        script.onload = resolve
        script.onerror = () => reject(new Error(`${url} cannot be read`))
      })
      this.inner.document.body.append(script)
      return done
    }

    postMessage(data) {
      this.loaded.then(() =>
        this.inner.dispatchEvent(new MessageEvent("message", { data }))
      )
    }
  }
  window.Worker = window.IFrameWorker
}
