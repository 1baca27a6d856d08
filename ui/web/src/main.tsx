// The page of a server of kstore.

import { render } from 'preact';
import '@preact/signals';
import { App } from './app.tsx';
import { start } from './store.ts';

render(<App />, document.getElementById('app')!);
void start();
