# Some of the generated objects of .ci/compare: what must hold for the answers of one server, and that two servers answer alike.
export ROOT
step 'kstore-server run --components apiserver -- "$ROOT/.ci/compare" --limit 300' '^0 findings' '^stored +[1-9][0-9]* checked +0 broken'
step 'kstore-server run --components apiserver -- "$ROOT/.ci/compare" --limit 150 --record "$WORK/answers.jsonl.gz"' '^150 answers are in'
step 'kstore-server run --components apiserver -- "$ROOT/.ci/compare" --limit 150 --left "$WORK/answers.jsonl.gz"' ': 150 cases: 150 equal, 0 text, 0 warnings, 0 object, 0 causes, 0 code$'
