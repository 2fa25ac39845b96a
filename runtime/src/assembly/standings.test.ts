import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Standing } from '../http/guard.ts'
import { Standings } from './standings.ts'

const ACTIVE: Standing = { tier: 'standard', status: 'active' }
const INACTIVE: Standing = { tier: 'standard', status: 'inactive' }

/** A registry that is told when to answer, and what; and the time. */
function registry() {
  const asked: { answer(standing: Standing): void; fail(error: Error): void }[] = []
  const clock = { nowMs: 0 }
  const standings = new Standings(
    () => new Promise((answer, fail) => asked.push({ answer, fail })),
    () => clock.nowMs,
  )
  const answered = async (at: number, standing: Standing) => {
    asked[at]?.answer(standing)
    await new Promise((resolve) => setImmediate(resolve))
  }
  return { asked, clock, standings, answered }
}

describe('what requests ask of their tenant', () => {
  it('is asked once for all that come at once', async () => {
    const { asked, standings, answered } = registry()
    const many = Promise.all(Array.from({ length: 32 }, () => standings.get('acme')))
    await answered(0, ACTIVE)
    assert.deepEqual(await many, Array(32).fill(ACTIVE))
    assert.equal(asked.length, 1)
    assert.equal(standings.get('acme'), ACTIVE, 'at once')
    void standings.get('other')
    assert.equal(asked.length, 2, 'each tenant for itself')
  })

  it('is asked anew beside the requests, and never believed for longer than five seconds', async () => {
    const { asked, clock, standings, answered } = registry()
    void standings.get('acme')
    await answered(0, ACTIVE)
    clock.nowMs = 4_999
    assert.deepEqual([standings.get('acme'), standings.get('acme')], [ACTIVE, ACTIVE])
    assert.equal(asked.length, 2)
    clock.nowMs = 5_000
    const late = standings.get('acme')
    assert.ok(late instanceof Promise, 'nobody has answered yet')
    await answered(1, ACTIVE)
    assert.equal(await late, ACTIVE)
    assert.equal(standings.get('acme'), ACTIVE)
    clock.nowMs = 4_999 + 5_000
    assert.ok(standings.get('acme') instanceof Promise, 'it is as old as the question')
  })

  it('ends with the first word that the tenant is not active any more', async () => {
    const { clock, standings, answered } = registry()
    void standings.get('acme')
    await answered(0, ACTIVE)
    clock.nowMs = 3_000
    void standings.get('acme')
    await answered(1, INACTIVE)
    assert.ok(standings.get('acme') instanceof Promise)
  })

  it('is asked by each for itself where others were told that it is not active: it may be since', async () => {
    const { asked, standings, answered } = registry()
    const first = standings.get('acme')
    const second = standings.get('acme')
    await answered(0, INACTIVE)
    await answered(1, ACTIVE)
    assert.deepEqual([await first, await second, asked.length], [INACTIVE, ACTIVE, 2])
  })

  it('is known for its time where the registry does not answer, and then told as that', async () => {
    const { asked, clock, standings, answered } = registry()
    void standings.get('acme')
    await answered(0, ACTIVE)
    clock.nowMs = 3_000
    assert.equal(standings.get('acme'), ACTIVE)
    asked[1]?.fail(new Error('away'))
    await answered(1, ACTIVE)
    assert.equal(standings.get('acme'), ACTIVE)
    clock.nowMs = 6_000
    const late = Promise.resolve(standings.get('acme'))
    asked[2]?.fail(new Error('away'))
    await assert.rejects(late, { message: 'away' })
  })
})
