/** A sample of `npm run prove -- versions`: the versions of one product, drawn by a seed, each held against an evaluator of its own. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { configure, Versions } from '../prove/versions/run.ts'
import { type Deployment, openDeployment } from './deployment.ts'

const SEED = 1
const PAIRS = 6

let deployment: Deployment

before(async () => {
  // Masks of every kind are the configuration of a runtime of its own.
  configure(process.env)
  deployment = await openDeployment()
})

after(() => deployment?.stop())

it('what plans say is what deployments do, as each reader reads it', async (test) => {
  const versions = new Versions(SEED, (line) => test.diagnostic(line))
  await versions.play(deployment, { pairs: PAIRS, minutes: 60, lanes: 1, chain: 0 }, test.signal)
  assert.deepEqual(versions.found, [])
  assert.equal(versions.pairs, PAIRS)
  assert.ok(versions.counts.polls > PAIRS, 'somebody has asked meanwhile')
})
