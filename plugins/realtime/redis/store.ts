import {
  checkPlanHash,
  type Health,
  type Host,
  isSluiceError,
  notMaterialized,
  planOfSteps,
  type ServingStore,
  SluiceError,
} from '@sluice/sdk'
import type { RealtimeConfig } from '../keyed-values/endpoint.ts'
import { provisionSteps } from '../keyed-values/shape.ts'
import type { Connections } from './connections.ts'
import { digest } from './digest.ts'
import { storeError } from './driver-errors.ts'
import { prefixOf, tenantPrefix } from './keys.ts'
import { type Marker, Markers } from './markers.ts'
import { applyProvision } from './provisioning.ts'
import { read } from './reading.ts'
import { noticeEvictions, probeServers } from './server-facts.ts'
import { finishDrop, SWEEP_EVERY_MS, sweep } from './sweeping.ts'
import { write } from './writing.ts'

const ENFORCED_BY = 'every key begins with the tenant, its separators escaped, and the tenant comes from the scope'
const NOTICE_EVERY_MS = 10_000

export function openStore(connections: Connections, host: Host): ServingStore<RealtimeConfig> {
  const markers = new Markers(connections)
  const running = new Set<Promise<unknown>>()
  let problem: string | null = null
  let isClosing = false
  let closed: Promise<void> | null = null

  const checkOpen = (): void => {
    if (isClosing) throw new SluiceError('TRANSIENT', 'the realtime store is closing', { code: 'store_closing' })
  }
  const parts = { connections, markers, host, checkOpen }

  /** Counts the call among those that a close waits for, and speaks of its failure in the contract's words. */
  const guarded = async <T>(run: () => Promise<T>): Promise<T> => {
    checkOpen()
    const call = run()
    running.add(call)
    try {
      return await call
    } catch (error) {
      throw storeError(error)
    } finally {
      running.delete(call)
    }
  }

  const dropDataset = async (prefix: string): Promise<boolean> => {
    let dropped: Marker | undefined
    await markers.update(prefix, (marker) => {
      dropped = marker && { ...marker, isDropped: true }
      return marker?.isDropped ? marker : dropped
    })
    if (dropped !== undefined) await finishDrop(parts, prefix, dropped)
    return dropped !== undefined
  }

  const inBackground = (what: string, run: () => Promise<void>) => (): Promise<void> =>
    guarded(run).catch((error: unknown) => {
      const code = isSluiceError(error) ? error.code : 'internal_error'
      if (!isClosing) host.logger.warn(`${what} the realtime store failed and is tried again`, { code })
    })

  const stopTimers = [
    host.clock.every(
      SWEEP_EVERY_MS,
      inBackground('a sweep of', () => sweep(parts)),
    ),
    host.clock.every(
      NOTICE_EVERY_MS,
      inBackground('a look at', async () => {
        problem = await noticeEvictions(connections, markers)
      }),
    ),
  ]

  return {
    provision: (target, mode, expectedHash) =>
      guarded(async () => {
        const plan = planOfSteps(provisionSteps(await markers.get(prefixOf(target)), target))
        if (mode === 'plan') return plan
        checkPlanHash(plan, expectedHash)
        await applyProvision(connections, markers, target)
        return plan
      }),

    rls: {
      install: (target, policy) =>
        guarded(() =>
          markers.update(prefixOf(target), (marker) => {
            if (marker === undefined || marker.isDropped) throw notMaterialized()
            return { ...marker, policy: { ...policy } }
          }),
        ),
      describe: (target) =>
        guarded(async () => {
          const policy = (await markers.get(prefixOf(target)))?.policy
          if (policy) return { ...policy, enforcedBy: ENFORCED_BY }
          throw new SluiceError('CONFLICT', 'no policy is in place', {
            code: 'policy_missing',
            remedy: 'Install the policy, then ask again.',
          })
        }),
    },

    write: (target, changes, commit) => guarded(() => write(parts, target, changes, commit)),

    async *read(target, plan) {
      yield await guarded(() => read(parts, target, plan))
    },

    recover: (target) => guarded(async () => (await markers.get(prefixOf(target)))?.applied ?? null),

    digest: (target, signal) => guarded(() => digest(connections, markers, prefixOf(target), signal)),

    drop: (target, mode) =>
      guarded(async () => {
        const prefix = prefixOf(target)
        const isThere = (await markers.get(prefix)) !== undefined
        if (mode === 'apply') await dropDataset(prefix)
        const description = `forget the values of ${target.domain}.${target.product}`
        return planOfSteps(isThere ? [{ action: 'drop', description }] : [])
      }),

    dropTenant: (scope) =>
      guarded(async () => {
        const own = tenantPrefix(scope)
        for (const prefix of await markers.prefixes()) {
          if (prefix.startsWith(own) && !(await dropDataset(prefix))) await markers.delist(prefix)
        }
      }),

    probe: () =>
      guarded(async () => {
        const walls = { name: 'tenant walls', ok: true, message: ENFORCED_BY }
        const checks = [walls, ...(await probeServers(connections))]
        return { ok: checks.every(({ ok }) => ok), checks }
      }),

    health(): Health {
      return problem === null ? connections.health() : { status: 'degraded', message: problem }
    },

    close() {
      closed ??= (async () => {
        isClosing = true
        for (const stop of stopTimers) stop()
        await Promise.allSettled(running)
        await connections.close()
      })()
      return closed
    },
  }
}
