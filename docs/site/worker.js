// A page that is opened as a file may start no worker, which searches. So that one runs in a frame of the page.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.append(this.frame);
      this.frame.contentWindow.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }));
      const script = this.frame.contentDocument.createElement("script");
      script.src = new URL(url, location);
      script.onerror = (error) => this.onerror?.(error);
      this.loaded = new Promise((resolve) => (script.onload = resolve));
      this.frame.contentDocument.body.append(script);
    }

    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.onmessage({ data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
