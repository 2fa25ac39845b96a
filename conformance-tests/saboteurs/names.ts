/** Stores that declare which names they can hold, and do otherwise. */
import { checkNames, type Target } from '@sluice/sdk'
import type { ReferenceConfig } from '../reference/index.ts'
import { type Saboteur, type Store, sabotagedPlugin } from './wrap.ts'

const PATTERN = '[a-z0-9_-]{1,200}'

type Provision = Store['provision']

/** Declares the pattern, and refuses names as `refuse` does. */
function choosy(
  name: string,
  caughtBy: readonly number[],
  namePattern: string,
  refuse: (provision: Provision, target: Target<ReferenceConfig>, mode: 'plan' | 'apply') => Promise<void>,
): Saboteur {
  return sabotagedPlugin(name, caughtBy, (plugin) => ({
    ...plugin,
    capabilities: { ...plugin.capabilities, limits: { ...plugin.capabilities.limits, namePattern } },
    async open(settings, host) {
      const store = await plugin.open(settings, host)
      return {
        ...store,
        async provision(target, mode, hash) {
          await refuse(store.provision, target, mode)
          return store.provision(target, mode, hash)
        },
      }
    },
  }))
}

const only = (namePattern: string) => ({ limits: { maxReadRows: 1, maxRowBytes: 1, namePattern } })

export const nameSaboteurs: readonly Saboteur[] = [
  choosy('declares which names it can hold, and takes any', [24, 25, 26, 34, 78, 79], PATTERN, async () => undefined),
  choosy('refuses a name once the place is made', [24, 78], PATTERN, async (provision, target, mode) => {
    if (mode === 'apply') await provision(target, mode)
    checkNames(target, only(PATTERN))
  }),
  choosy('refuses names that it says it can hold', [24, 79], PATTERN, async (_, target) =>
    checkNames(target, only('[a-z0-9-]{1,40}')),
  ),
  choosy('lets a plan pass under a name that it refuses', [26, 79], PATTERN, async (_, target, mode) => {
    if (mode === 'apply') checkNames(target, only(PATTERN))
  }),
  choosy('can hold hardly any name', [26, 34], '[a-z]{1,3}|conformance|p.*|orders|[a-z]+-.*', async (_, target) =>
    checkNames(target, only('[a-z]{1,3}|conformance|p.*|orders|[a-z]+-.*')),
  ),
  choosy('declares a pattern that is none', [1], '[a-z', async () => undefined),
]
