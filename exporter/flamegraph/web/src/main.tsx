import { render } from "preact";
import { Boundary, Page } from "./app";
import { Store } from "./model/store";
import "./style/main.css";

render(
  <Boundary>
    <Page store={new Store(window)} />
  </Boundary>,
  document.getElementById("app")!,
);
