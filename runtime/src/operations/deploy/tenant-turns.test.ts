import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { TenantTurns } from './tenant-turns.ts'

const signal = new AbortController().signal

describe('turns of tenants', () => {
  it('come one after the other, and beside those of other tenants', async () => {
    const turns = new TenantTurns()
    const begun: string[] = []
    const take = async (tenant: string, name: string) => {
      const end = await turns.take(tenant, signal)
      begun.push(name)
      return end
    }
    const first = await take('a', 'first')
    const second = take('a', 'second')
    const third = take('a', 'third')
    const other = await take('b', 'other')
    assert.deepEqual(begun, ['first', 'other'])
    first()
    const end = await second
    assert.deepEqual(begun, ['first', 'other', 'second'])
    end()
    ;(await third)()
    other()
    ;(await take('a', 'again'))()
    assert.deepEqual(begun, ['first', 'other', 'second', 'third', 'again'])
  })

  it('pass over who has left', async () => {
    const turns = new TenantTurns()
    const gone = new AbortController()
    const end = await turns.take('a', signal)
    const left = turns.take('a', gone.signal)
    const next = turns.take('a', signal)
    gone.abort(new Error('gone'))
    await assert.rejects(left, /gone/)
    await assert.rejects(turns.take('a', gone.signal), /gone/)
    end()
    ;(await next)()
    ;(await turns.take('a', signal))()
  })

  it('are waited for by few', async () => {
    const turns = new TenantTurns()
    const end = await turns.take('a', signal)
    const waiting = Array.from({ length: 10 }, () => turns.take('a', signal))
    await assert.rejects(turns.take('a', signal), { code: 'too_many_at_once' })
    end()
    for (const turn of waiting) (await turn)()
    ;(await turns.take('a', signal))()
  })

  it('end with their work, however it ends', async () => {
    const turns = new TenantTurns()
    assert.equal(await turns.within('a', signal, async () => 1), 1)
    await assert.rejects(
      turns.within('a', signal, () => Promise.reject(new Error('failed'))),
      /failed/,
    )
    assert.equal(await turns.within('a', signal, async () => 2), 2)
  })
})
