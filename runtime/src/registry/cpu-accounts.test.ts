import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CpuAccounts, type CpuCharge, type CpuLedger, onAccountOf } from './cpu-accounts.ts'

const LIMIT_S = 10
const logger = { debug() {}, info() {}, warn() {}, error() {} }

/** Keeps what is charged; who has more than the limit waits a minute. */
function startLedger() {
  const used = new Map<string, number>()
  let isAway = false
  const ledger: CpuLedger = {
    async charge(charges: readonly CpuCharge[]) {
      if (isAway) throw new Error('away')
      for (const { tenant, seconds } of charges) used.set(tenant, (used.get(tenant) ?? 0) + seconds)
    },
    async debts() {
      if (isAway) throw new Error('away')
      return [...used].flatMap(([tenant, seconds]) => (seconds > LIMIT_S ? [{ tenant, waitMs: 60_000 }] : []))
    },
  }
  return {
    used,
    ledger,
    setAway(away: boolean) {
      isAway = away
    },
  }
}

const SPENT = { kind: 'QUOTA', code: 'cpu_time_spent', retryAfterMs: 60_000 }

describe('accounts of CPU time', () => {
  it('refuse a tenant what several runtimes have given it together, and no other', async () => {
    const { ledger } = startLedger()
    const runtimes = [1, 2].map(() => new CpuAccounts({ ledger, logger, nowMs: () => 0 }))
    for (const accounts of runtimes) {
      accounts.charge('acme', 'engine', 3)
      accounts.charge('acme', 'source', 3)
      accounts.charge('other', 'engine', 3)
      accounts.refuseSpent('acme')
      await accounts.settle()
    }
    await runtimes[0]?.settle()
    for (const accounts of runtimes) {
      assert.throws(() => accounts.refuseSpent('acme'), SPENT)
      accounts.refuseSpent('other')
      await onAccountOf('acme', async () => accounts.refuseSpent('acme'))
    }
  })

  it('let a tenant in again when its time has come, told or not', async () => {
    const { ledger } = startLedger()
    let nowMs = 0
    const accounts = new CpuAccounts({ ledger, logger, nowMs: () => nowMs })
    accounts.charge('acme', 'engine', 11)
    await accounts.settle()
    nowMs = 59_999
    assert.throws(() => accounts.refuseSpent('acme'), { ...SPENT, retryAfterMs: 1000 })
    nowMs = 60_000
    accounts.refuseSpent('acme')
  })

  it('lose nothing while the registry is away, and carry the rest at the end', async () => {
    const { used, ledger, setAway } = startLedger()
    const accounts = new CpuAccounts({ ledger, logger })
    accounts.charge('acme', 'engine', 4)
    setAway(true)
    await accounts.settle()
    accounts.charge('acme', 'engine', 4)
    accounts.charge(null, 'engine', 100)
    setAway(false)
    await accounts.stop()
    assert.deepEqual([...used], [['acme', 8]])
  })
})
