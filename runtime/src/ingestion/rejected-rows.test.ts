import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { MAX_REJECTED } from '../quality/max-rejected.ts'
import { checkRejected, rejectedLimits } from './rejected-rows.ts'

const outcome = (rejected: number, total: number) => ({
  rejected,
  rowCount: total - rejected,
  rejectReasons: ['n: the number is NaN'],
  refused: [],
})

it('refuses a read when both the share and the number of rows left out are exceeded', () => {
  for (const [rejected, total, limit, refused] of [
    [0, 0, MAX_REJECTED, false],
    [100, 100, MAX_REJECTED, false],
    [101, 101, MAX_REJECTED, true],
    [101, 101_000, MAX_REJECTED, false],
    [102, 101_000, MAX_REJECTED, true],
    [1, 1_000_000, { percent: 0, rows: 0 }, true],
    [0, 10, { percent: 0, rows: 0 }, false],
    [500, 1_000, { percent: 50, rows: 0 }, false],
    [501, 1_000, { percent: 50, rows: 0 }, true],
  ] as const) {
    const check = () => checkRejected('public.t', outcome(rejected, total), [{ percent: 100, rows: 0 }, limit])
    const told = {
      code: 'too_many_rejected',
      message: /^public\.t: more than [\d.]+ % and more than \d+ of its rows cannot be carried$/,
    }
    if (refused) assert.throws(check, told, `${rejected} of ${total}`)
    else check()
  }
})

it('asks every product that reads the table, and no other', () => {
  const reading = (connection: string, table: string, maxRejected?: unknown) =>
    ({ manifests: { inputs: [{ connection, table }], quality: { checks: [], maxRejected } } }) as unknown as {
      manifests: ManifestSet
    }
  const strict = { percent: 0, rows: 0 }
  const products = [
    reading('db', 't'),
    reading('db', 'public.t', strict),
    reading('db', 'public.other', strict),
    reading('else', 'public.t', strict),
  ]
  assert.deepEqual(rejectedLimits('db', 'public.t', products), [MAX_REJECTED, strict])
})
