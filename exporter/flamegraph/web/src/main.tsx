import { render } from "preact";
import { Page } from "./app";
import { Store } from "./model/store";
import "./style/main.css";

render(<Page store={new Store(window)} />, document.getElementById("app")!);
