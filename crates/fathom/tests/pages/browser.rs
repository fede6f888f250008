//! A headless Chromium, controlled over two pipes with its DevTools protocol: without port, driver and network.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Timeout of one response; it detects hangs and does not measure speed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the path of Chromium, or the reason why there is none.
pub fn chromium() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    ["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)))
        .find(|file| file.is_file())
        .ok_or_else(|| "no chromium in PATH (`scripts/setup --test` installs Debian's)".to_string())
}

/// A browser with one tab; killed on drop.
pub struct Browser {
    process: Child,
    to: File,
    from: Receiver<Value>,
    session: String,
    next: u64,
    /// Errors and warnings of the console, exceptions, and failed loads.
    pub complaints: Vec<String>,
    _home: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Browser {
    /// Starts a browser.
    pub fn start(program: &Path) -> Browser {
        let home = tempfile::tempdir().expect("a directory");
        let [to, from] = ["to", "from"].map(|name| home.path().join(name));
        let made = Command::new("mkfifo").args([&to, &from]).status().expect("mkfifo");
        assert!(made.success(), "mkfifo");
        // The protocol uses descriptors 3 and 4; the shell opens them.
        let process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$FATHOM_TO\" 4>\"$FATHOM_FROM\""])
            .arg(program)
            .args(["--headless", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--disable-quic"])
            // Without sandbox: it does not work as root, and the pages are trusted.
            .args(["--no-sandbox", "--disable-dev-shm-usage", "--remote-debugging-pipe"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", home.path().join("profile").display()))
            .arg("about:blank")
            .env("FATHOM_TO", &to)
            .env("FATHOM_FROM", &from)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let to = File::options().write(true).open(&to).expect("the pipe to it");
        let from = listen(File::open(&from).expect("the pipe from it"));
        let mut browser = Browser {
            process,
            to,
            from,
            session: String::new(),
            next: 0,
            complaints: Vec::new(),
            _home: home,
        };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let at = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.ask("Target.attachToTarget", at);
        browser.session = session["sessionId"].as_str().expect("a session").to_string();
        for domain in ["Page", "Runtime", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends one command and returns its response; events that arrive before it are kept.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser listens");
        loop {
            let answer = self.from.recv_timeout(PATIENCE).expect("the browser answers");
            if answer["id"] == json!(self.next) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.keep_complaint(&answer);
        }
    }

    fn keep_complaint(&mut self, event: &Value) {
        let params = &event["params"];
        let bad = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                ["error", "warning", "assert"].contains(&params["type"].as_str().unwrap_or(""))
            }
            Some("Log.entryAdded") => {
                ["error", "warning"].contains(&params["entry"]["level"].as_str().unwrap_or(""))
            }
            _ => false,
        };
        if bad {
            self.complaints.push(params.to_string());
        }
    }

    /// Returns the value of a script; waits for a promise.
    pub fn value(&mut self, script: &str) -> Value {
        let params = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let answer = self.ask("Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{script}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Opens a page in a window of this size and waits until its figures are drawn.
    pub fn open(&mut self, page: &Path, width: u64, height: u64, dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.ask("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!([{"name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" }}]);
        self.ask("Emulation.setEmulatedMedia", json!({"features": scheme}));
        self.ask("Page.navigate", json!({"url": format!("file://{}", page.display())}));
        // Repeated, because the old document may still be loaded, or the new one not yet.
        let script = "document.readyState === 'complete' && [document.documentElement.dataset.drawn ?? \
                      document.querySelector('figcaption')?.textContent ?? '']";
        let start = std::time::Instant::now();
        loop {
            let drawn = self.value(script);
            if drawn[0].as_str().is_some_and(|n| n.parse::<u64>().is_ok()) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "the figures are not drawn: {drawn}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses a key in the focused element.
    pub fn press(&mut self, key: &str) {
        let text = match key {
            "Enter" => json!("\r"),
            key if key.chars().count() == 1 => json!(key),
            _ => Value::Null,
        };
        let mut down = json!({"type": "keyDown", "key": key});
        if key == "Enter" {
            down["windowsVirtualKeyCode"] = json!(13);
        }
        if !text.is_null() {
            down["text"] = text;
        }
        self.ask("Input.dispatchKeyEvent", down);
        self.ask("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
    }

    /// Moves the mouse to a point of the window.
    pub fn hover(&mut self, x: f64, y: f64) {
        self.ask("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": x, "y": y}));
    }

    /// Writes a screenshot of the whole page to a file.
    pub fn screenshot(&mut self, file: &Path) {
        let answer = self.ask("Page.captureScreenshot", json!({"captureBeyondViewport": true}));
        let picture = decode(answer["data"].as_str().expect("a picture"));
        std::fs::write(file, picture).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }

    /// Returns the size of the printed page, in bytes of PDF.
    pub fn printed(&mut self) -> usize {
        let answer = self.ask("Page.printToPDF", json!({}));
        decode(answer["data"].as_str().expect("a document")).len()
    }
}

fn decode(base64: &str) -> Vec<u8> {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    BASE64_STANDARD.decode(base64).expect("base64")
}

/// Messages end with a zero byte. A thread reads them, so that waiting for one can time out.
fn listen(from: File) -> Receiver<Value> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut message = Vec::new();
        while from.read_until(0, &mut message).is_ok_and(|n| n > 0) {
            message.pop();
            let Ok(value) = serde_json::from_slice(&message) else { break };
            if send.send(value).is_err() {
                break;
            }
            message.clear();
        }
    });
    receive
}
