/** Which programs of others connectors may start: by the operator's configuration alone. */
import { existsSync, realpathSync } from 'node:fs'
import { isAbsolute } from 'node:path'
import { SluiceError } from '@sluice/sdk'
import { isWithin, realOf } from '../folder-rules.ts'

export interface AllowedProgram {
  /** The path of the program, and words that it is always started with. */
  readonly command: readonly string[]
  /** Words that come after those of the connector. */
  readonly arguments: readonly string[]
  /** Where its code lies. */
  readonly folders: readonly string[]
  /** Whose connections may use it; absent: everybody's. */
  readonly tenants?: readonly string[]
  /** Of all its processes together. */
  readonly memory_mb: number
}

/** By type of connector, then by the name that connections use. */
export type ProgramTable = Readonly<Record<string, Readonly<Record<string, AllowedProgram>>>>

/** Libraries and what they read; nothing of it is anybody's. */
const SYSTEM_TREES = ['/usr', '/lib', '/lib64', '/bin', '/etc/ssl', '/etc/pki', '/etc/ca-certificates']
const SYSTEM_FILES = [
  '/etc/ld.so.cache',
  '/etc/localtime',
  '/etc/mime.types',
  '/etc/nsswitch.conf',
  '/dev/urandom',
  '/dev/random',
  '/dev/zero',
]

export class ProgramRules {
  readonly #table: ProgramTable

  /** Throws CONFIG for a path that is none, or a folder that has to do with a private one. */
  constructor(table: ProgramTable, privateFolders: readonly string[]) {
    const secret = privateFolders.map(realOf)
    for (const [type, programs] of Object.entries(table))
      for (const [name, { command, folders }] of Object.entries(programs)) {
        const where = `programs.${type}.${name}`
        if (!isAbsolute(command[0] ?? '')) throw wrong(where, 'its command does not begin with a path from the root')
        for (const folder of [...folders, ...SYSTEM_TREES]) {
          if (!isAbsolute(folder)) throw wrong(where, `"${folder}" is no path from the root`)
          const real = realOf(folder)
          if (secret.some((one) => isWithin(one, real) || isWithin(real, one)))
            throw wrong(where, `"${folder}" has to do with what is the runtime’s own`)
        }
      }
    this.#table = table
  }

  /** Whether connectors of that type may start any. */
  knows(type: string): boolean {
    return Object.hasOwn(this.#table, type)
  }

  /** Throws PERMISSION `program_refused`, in the same words whether there is none or it is not for that tenant. */
  of(type: string, name: string, tenant: string | null): AllowedProgram {
    const programs = this.#table[type] ?? {}
    const allowed = Object.hasOwn(programs, name) ? programs[name] : undefined
    const isForTenant = allowed?.tenants === undefined || (tenant !== null && allowed.tenants.includes(tenant))
    if (allowed !== undefined && isForTenant) return allowed
    throw new SluiceError('PERMISSION', 'that program may not be used by connections of this tenant', {
      code: 'program_refused',
      remedy: `Name one that the operator allows under programs.${type} in sluice.yaml.`,
    })
  }
}

/** Its own folders and the system's, those that are there, as they really are. */
export function treesOf({ folders }: AllowedProgram): {
  readonly trees: readonly string[]
  readonly files: readonly string[]
} {
  return {
    trees: [
      ...new Set([...SYSTEM_TREES, ...folders].filter((path) => existsSync(path)).map((path) => realpathSync(path))),
    ],
    files: SYSTEM_FILES.filter((path) => existsSync(path)),
  }
}

function wrong(where: string, why: string): SluiceError {
  return new SluiceError('CONFIG', `${where}: ${why}`, {
    code: 'invalid_config',
    remedy:
      'Install the program into a folder of its own, apart from data_dir and secrets_dir, and name its paths from the root.',
  })
}
