// What `wait` waits for, as a function of the object and as words.
'use strict';

const { UsageError } = require('./errors');

function expectation({ condition, matches, until, deleted = false }) {
  const given = [condition !== undefined, matches !== undefined, until !== undefined, deleted].filter(Boolean).length;
  if (given > 1) throw new UsageError('wait takes one of condition, matches, until and deleted');
  if (condition !== undefined) {
    const [type, status = 'True'] = condition.split('=');
    const fits = (object) => (object.status?.conditions ?? []).some((one) => one.type === type && one.status === status);
    return { fits, wanted: `${type}=${status}` };
  }
  if (matches !== undefined) return { fits: (object) => contains(object, matches), wanted: `like ${JSON.stringify(matches)}` };
  if (until !== undefined) return { fits: until, wanted: `as ${until.name || 'until'} wants it` };
  return deleted ? { fits: () => false, wanted: 'gone' } : { fits: () => true, wanted: 'there' };
}

/** Whether `whole` has all of `part`: objects by field, arrays and everything else by equality. */
function contains(whole, part) {
  if (part === null || typeof part !== 'object') return whole === part;
  if (Array.isArray(part)) {
    return Array.isArray(whole) && whole.length === part.length && part.every((value, index) => contains(whole[index], value));
  }
  return whole !== null && typeof whole === 'object' && Object.entries(part).every(([name, value]) => contains(whole[name], value));
}

module.exports = { expectation };
