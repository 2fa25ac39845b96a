import {
  checkPlanHash,
  type Health,
  type Host,
  isSluiceError,
  planOfSteps,
  type ServingStore,
  SluiceError,
  tenantOf,
} from '@sluice/sdk'
import type { RealtimeConfig } from '../keyed-values/endpoint.ts'
import { provisionSteps } from '../keyed-values/shape.ts'
import { digest } from './digest.ts'
import type { Environment } from './environment.ts'
import { prefixOf } from './keys.ts'
import { applyProvision } from './provisioning.ts'
import { read } from './reading.ts'
import { finishDrop, SWEEP_EVERY_MS, sweep } from './sweeping.ts'
import { OWN_WORK, Turns } from './turns.ts'
import { markerOf, write } from './writing.ts'

const ENFORCED_BY = 'every key begins with the tenant, its separators escaped, and the tenant comes from the scope'

export function openStore(environment: Environment, host: Host): ServingStore<RealtimeConfig> {
  const turns = new Turns()
  const { markers } = environment
  let health: Health = { status: 'ok' }
  let sweeping: Promise<void> = Promise.resolve()
  let closed: Promise<void> | null = null

  const guarded = async <T>(run: () => Promise<T>): Promise<T> => {
    try {
      const result = await run()
      health = { status: 'ok' }
      return result
    } catch (error) {
      if (isSluiceError(error)) throw error
      health = { status: 'degraded', message: 'the last call failed in LMDB' }
      throw storeFailed(error)
    }
  }

  const dropDataset = (prefix: string): Promise<void> =>
    turns.take(prefix, OWN_WORK, async (turn) => {
      await markers.update(prefix, (marker) => ({ ...marker, isDropped: true }))
      await finishDrop(environment, prefix, turn)
    })

  const stopSweeper = host.clock.every(SWEEP_EVERY_MS, () => {
    sweeping = sweep(environment, host, turns).catch((error: unknown) => {
      if (!isSluiceError(error)) host.logger.warn('a sweep of the realtime store failed and is tried again', { error })
    })
    return sweeping
  })

  return {
    provision: (target, mode, expectedHash) =>
      guarded(async () => {
        const prefix = prefixOf(target)
        const plan = planOfSteps(provisionSteps(markers.get(prefix), target))
        if (mode === 'plan') return plan
        checkPlanHash(plan, expectedHash)
        const isHalfDropped = markers.all().some(([known, marker]) => known === prefix && marker.isDropped)
        if (isHalfDropped) await dropDataset(prefix)
        await applyProvision(environment, target)
        return plan
      }),

    rls: {
      install: (target, policy) =>
        guarded(async () => {
          const prefix = prefixOf(target)
          markerOf(environment, prefix)
          await markers.update(prefix, (marker) => ({ ...marker, policy: { ...policy } }))
        }),
      async describe(target) {
        const policy = markers.get(prefixOf(target))?.policy
        if (policy) return { ...policy, enforcedBy: ENFORCED_BY }
        throw new SluiceError('CONFLICT', 'no policy is in place', {
          code: 'policy_missing',
          remedy: 'Install the policy, then ask again.',
        })
      },
    },

    write: (target, changes, commit) => guarded(() => write({ environment, host, turns }, target, changes, commit)),

    async *read(target, plan) {
      yield read(environment, host, target, plan)
    },

    async recover(target) {
      const marker = markers.get(prefixOf(target))
      return marker?.applied ?? null
    },

    digest: (target, signal) => guarded(() => digest(environment, prefixOf(target), signal)),

    drop: (target, mode) =>
      guarded(async () => {
        const prefix = prefixOf(target)
        const isThere = markers.get(prefix) !== undefined
        if (mode === 'apply') await dropDataset(prefix)
        const description = `forget the values of ${target.domain}.${target.product}`
        return planOfSteps(isThere ? [{ action: 'drop', description }] : [])
      }),

    dropTenant: (scope) =>
      guarded(async () => {
        const tenant = tenantOf(scope)
        for (const [prefix, marker] of markers.all()) if (marker.tenant === tenant) await dropDataset(prefix)
      }),

    async probe() {
      const check = { name: 'tenant walls', ok: true, message: ENFORCED_BY }
      return { ok: true, checks: [check] }
    },

    health: () => health,

    close() {
      closed ??= (async () => {
        stopSweeper()
        await turns.close()
        await sweeping
        await environment.close()
      })()
      return closed
    },
  }
}

function storeFailed(error: unknown): SluiceError {
  return new SluiceError('TRANSIENT', 'the realtime store could not do it', {
    code: 'store_failed',
    remedy: 'Look for a full disk in the log; the call is repeated.',
    cause: error,
  })
}
