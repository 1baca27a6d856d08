// The server's explanation of an object as text, in the form of `kstore-server explain`: who wrote what, and because of what.
'use strict';

/** A tree of writes, one line a write; same writes beside each other are one line with their number. */
function traceText(writes) {
  const lines = [];
  for (const write of writes) {
    lines.push(`${write.time}  ${described(write, true)}`);
    branches(lines, write.children ?? [], '', Date.parse(write.time));
  }
  return lines.length > 0 ? lines.join('\n') : 'no writes are remembered';
}

/** The revisions of all writes in the trees. */
function revisionsOf(writes) {
  return writes.flatMap((write) => [write.revision, ...revisionsOf(write.children ?? [])]);
}

function branches(lines, children, indent, start) {
  const isLeaf = (write) => (write.children ?? []).length === 0;
  const runs = [];
  for (const child of children) {
    const last = runs.at(-1);
    if (last && isLeaf(child) && isLeaf(last[0]) && described(child, false) === described(last[0], false)) last.push(child);
    else runs.push([child]);
  }
  runs.forEach((run, index) => {
    const [knot, below] = index === runs.length - 1 ? ['└─', '   '] : ['├─', '│  '];
    const seconds = (Date.parse(run[0].time) - start) / 1000;
    const times = run.length > 1 ? `  ×${run.length}` : '';
    lines.push(`${indent}${knot} ${seconds < 0 ? '' : '+'}${seconds.toFixed(3)}s  ${described(run[0], true)}${times}`);
    if (run[0].truncated) lines.push(`${indent}${below}…`);
    branches(lines, run[0].children ?? [], indent + below, start);
  });
}

function described(write, withRevision) {
  const program = String(write.agent ?? '').split(/[/ ]/)[0];
  const user = String(write.user ?? '');
  const actor = user.startsWith('system:') && program ? program : program ? `${user} (${program})` : user;
  const subresource = String(write.verb ?? '').split('/')[1];
  const changes = withRevision && write.changes ? `  ${write.changes.join(', ')}` : '';
  return `${withRevision ? `#${write.revision}  ` : ''}${actor} ${write.effect} ${write.object}${subresource ? ` [${subresource}]` : ''}${changes}`;
}

module.exports = { traceText, revisionsOf };
