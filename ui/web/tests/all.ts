// All unit tests of the page, under node:test.
import './model.test.ts';
import './scale.test.ts';
import './route.test.ts';
import './search.test.ts';
import './change.test.ts';
import './yaml.test.ts';
import './tree.test.ts';
import './lanes.test.ts';
import './compare.test.ts';
import './scheduling.test.ts';
import './metrics.test.ts';
import './report.test.ts';
import './marks.test.ts';
