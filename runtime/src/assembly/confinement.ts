/**
 * What a runtime does on a machine that lacks walls. Whoever takes over a process of the engine, or of a connector, has
 * there whatever the runtime has: that is bearable where nobody else's data lie, and nobody from outside comes in.
 */
import { isIPv4 } from 'node:net'
import { NEEDED_WALLS, type Wall, type WallName } from '@sluice/engine'
import { SluiceError } from '@sluice/sdk'
import { POLICY_KEY } from '../config/servers-beside.ts'
import type { Config } from '../config.ts'

export interface Confinement {
  /** Needed walls that the machine lacks, with why. */
  readonly missing: readonly Wall[]
  /** One tenant at most, and addresses of this machine only. */
  readonly isConfined: boolean
  /** Without these a process takes no work. */
  readonly neededWalls: readonly WallName[]
}

export function confinementOf(config: Pick<Config, 'walls'>, walls: readonly Wall[]): Confinement {
  const missing = walls.filter(({ name, up }) => !up && NEEDED_WALLS.includes(name))
  const isRequired = config.walls === 'required'
  const isConfined = isRequired && missing.length > 0
  return { missing, isConfined, neededWalls: isRequired && !isConfined ? NEEDED_WALLS : [] }
}

/** The configuration with all listeners on this machine's own addresses, where the runtime is confined. */
export function confined(config: Config, { isConfined }: Confinement): Config {
  if (!isConfined) return config
  return {
    ...config,
    host: loopbackOf(config.host),
    [POLICY_KEY]: { ...config[POLICY_KEY], policy_host: loopbackOf(config[POLICY_KEY].policy_host) },
  }
}

/** For the log, and whoever starts it. Null where nothing is to be said. */
export function confinementText({ missing, isConfined }: Confinement): string | null {
  if (missing.length === 0) return null
  const what = missing.map(({ name, why }) => `${name} (${why})`).join(', ')
  const consequence = isConfined
    ? 'it takes one tenant and listens on this machine only, unless walls: not_required is configured'
    : 'walls: not_required is configured, so every tenant has to trust every other, and every source'
  return `this machine lacks walls between tenants: ${what}; ${consequence}`
}

/** Throws CONFIG `walls_missing` where a confined runtime would serve more than one tenant. */
export function checkTenants({ isConfined }: Confinement, tenants: number): void {
  if (!isConfined || tenants <= 1) return
  throw new SluiceError('CONFIG', 'this machine lacks walls between tenants, and the registry has more than one', {
    code: 'walls_missing',
    remedy: 'Use a kernel with Landlock and seccomp, or set walls: not_required where all tenants trust each other.',
  })
}

function loopbackOf(host: string): string {
  const isLoopback = host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
  return isLoopback ? host : host.includes(':') ? '::1' : '127.0.0.1'
}
