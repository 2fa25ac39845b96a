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
import { storeLost } from './watched-file.ts'
import { markerOf, write } from './writing.ts'

const ENFORCED_BY = 'every key begins with the tenant, its separators escaped, and the tenant comes from the scope'

export function openStore(opened: Environment, host: Host): ServingStore<RealtimeConfig> {
  let turns = new Turns()
  let environment = opened
  let renewing: Promise<void> | null = null
  /** Ends what is in hand: LMDB may never say how a write has ended whose file was lost. */
  const inHand = new Set<(error: SluiceError) => void>()
  let health: Health = { status: 'ok' }
  let sweeping: Promise<void> = Promise.resolve()
  let closed: Promise<void> | null = null

  const renew = (): void => {
    if (renewing !== null || closed !== null) return
    host.logger.warn('the file of the realtime store was cut off, overwritten or removed; it is made anew')
    health = { status: 'degraded', message: 'the file was lost, and is made anew' }
    for (const end of inHand) end(storeLost())
    void turns.close()
    turns = new Turns()
    renewing = environment
      .renewed()
      .then(use)
      .catch((error: unknown) => host.logger.error('the file of the realtime store could not be made anew', { error }))
      .finally(() => {
        renewing = null
      })
  }
  const use = (renewed: Environment): void => {
    environment = renewed
    health = { status: 'ok' }
    renewed.onLost(renew)
  }
  use(opened)

  /** Throws TRANSIENT `store_lost`; one that could not be made anew is tried again. */
  const usable = (): Environment => {
    try {
      environment.check()
    } catch (error) {
      renew()
      throw error
    }
    return environment
  }

  const guarded = async <T>(run: (environment: Environment) => Promise<T>): Promise<T> => {
    const used = usable()
    const { promise: lost, reject } = Promise.withResolvers<never>()
    inHand.add(reject)
    try {
      const result = await Promise.race([run(used), lost])
      health = { status: 'ok' }
      return result
    } catch (error) {
      if (used.isLost) throw storeLost()
      if (isSluiceError(error)) throw error
      health = { status: 'degraded', message: 'the last call failed in LMDB' }
      throw storeFailed(error)
    } finally {
      inHand.delete(reject)
    }
  }

  const dropDataset = (used: Environment, prefix: string): Promise<void> =>
    turns.take(prefix, OWN_WORK, async (turn) => {
      await used.markers.update(prefix, (marker) => ({ ...marker, isDropped: true }))
      await finishDrop(used, prefix, turn)
    })

  const stopSweeper = host.clock.every(SWEEP_EVERY_MS, () => {
    sweeping = guarded((used) => sweep(used, host, turns)).catch((error: unknown) => {
      if (!isSluiceError(error)) host.logger.warn('a sweep of the realtime store failed and is tried again', { error })
    })
    return sweeping
  })

  return {
    provision: (target, mode, expectedHash) =>
      guarded(async (used) => {
        const { markers } = used
        const prefix = prefixOf(target)
        const plan = planOfSteps(provisionSteps(markers.get(prefix), target))
        if (mode === 'plan') return plan
        checkPlanHash(plan, expectedHash)
        const isHalfDropped = markers.all().some(([known, marker]) => known === prefix && marker.isDropped)
        if (isHalfDropped) await dropDataset(used, prefix)
        await applyProvision(used, target)
        return plan
      }),

    rls: {
      install: (target, policy) =>
        guarded(async (used) => {
          const prefix = prefixOf(target)
          markerOf(used, prefix)
          await used.markers.update(prefix, (marker) => ({ ...marker, policy: { ...policy } }))
        }),
      async describe(target) {
        const policy = usable().markers.get(prefixOf(target))?.policy
        if (policy) return { ...policy, enforcedBy: ENFORCED_BY }
        throw new SluiceError('CONFLICT', 'no policy is in place', {
          code: 'policy_missing',
          remedy: 'Install the policy, then ask again.',
        })
      },
    },

    write: (target, changes, commit) =>
      guarded((used) => write({ environment: used, host, turns }, target, changes, commit)),

    async *read(target, plan) {
      yield read(usable(), host, target, plan)
    },

    async recover(target) {
      const marker = usable().markers.get(prefixOf(target))
      return marker?.applied ?? null
    },

    digest: (target, signal) => guarded((used) => digest(used, prefixOf(target), signal)),

    drop: (target, mode) =>
      guarded(async (used) => {
        const prefix = prefixOf(target)
        const isThere = used.markers.get(prefix) !== undefined
        if (mode === 'apply') await dropDataset(used, prefix)
        const description = `forget the values of ${target.domain}.${target.product}`
        return planOfSteps(isThere ? [{ action: 'drop', description }] : [])
      }),

    dropTenant: (scope) =>
      guarded(async (used) => {
        const tenant = tenantOf(scope)
        for (const [prefix, marker] of used.markers.all()) if (marker.tenant === tenant) await dropDataset(used, prefix)
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
        await renewing
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
