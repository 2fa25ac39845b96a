/** Who reads, and what the configuration makes of classes for them. Said here once more, and not taken from the runtime. */

export interface Reader {
  readonly name: string
  readonly groups: readonly string[]
  /** `all`, or the classes shown in clear. */
  readonly clear: 'all' | readonly string[]
  /** By what the grant is held. */
  readonly grant: 'user' | 'team' | null
}

export const READERS: readonly Reader[] = [
  { name: 'vito', groups: ['svc-viewers'], clear: [], grant: null },
  { name: 'clara', groups: ['svc-viewers'], clear: 'all', grant: 'user' },
  { name: 'pam', groups: ['svc-viewers'], clear: ['pii.identifier', 'pii.phone'], grant: 'user' },
  { name: 'sue', groups: ['svc-viewers', 'support'], clear: ['pii.note'], grant: 'team' },
  { name: 'dora', groups: ['svc-developers'], clear: [], grant: null },
]

export const TEAM = 'support'

/** As the runtime of the proof is configured. */
export const MASKS: Readonly<Record<string, 'hash' | 'redact' | 'partial' | 'null' | 'omit'>> = {
  'pii.identifier': 'hash',
  'pii.name': 'redact',
  'pii.phone': 'partial',
  'pii.salary': 'null',
  'pii.note': 'omit',
}

export type Mask = (typeof MASKS)[string]

export function useMasks(environment: NodeJS.ProcessEnv): void {
  for (const [name, mask] of Object.entries(MASKS)) {
    environment[`SLUICE_MASKING__STRATEGIES__${name.toUpperCase()}`] = mask
  }
}

export function mayRead({ grant }: Reader, classification: 'internal' | 'confidential' | 'restricted'): boolean {
  if (classification === 'internal') return true
  return classification === 'confidential' ? grant !== null : grant === 'user'
}

/** Null: in clear. A mask that the type cannot carry is null. */
export function maskFor(
  { clear }: Reader,
  { classification, type }: { readonly classification: string | null; readonly type: string },
): Mask | null {
  if (classification === null || clear === 'all' || clear.includes(classification)) return null
  const mask = MASKS[classification] as Mask
  return mask === 'omit' || type === 'string' ? mask : 'null'
}
