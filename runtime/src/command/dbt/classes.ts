/** What dbt's free words say of how protected a column or a model is. */
import { isSensitive } from '../../manifest/manifest-set.ts'
import type { DbtColumn, Fields } from './artifacts.ts'
import { fieldOf, textOf } from './artifacts.ts'

const LEVELS: readonly string[] = ['public', 'internal', 'confidential', 'restricted']
const CLASS = /^[a-z][a-z0-9_]{0,62}(\.[a-z][a-z0-9_]{0,62}){1,3}$/

/** Of a column whose words say that it is to be hidden, and not as what. */
const UNNAMED = 'pii.identifier'

/** What to call the column's class; null where nothing is said. */
export function columnClass(
  { meta, hasPolicyTag }: Pick<DbtColumn, 'meta' | 'hasPolicyTag'>,
  sensitive: readonly string[],
): string | null {
  const said = textOf(fieldOf(meta, 'classification'))?.trim().toLowerCase() ?? null
  if (said !== null && CLASS.test(said) && isSensitive(said, sensitive)) return said
  const pii = fieldOf(meta, 'pii') ?? fieldOf(meta, 'contains_pii')
  if (typeof pii === 'string' && isYes(pii) === null) return piiClass(pii)
  const hides = [pii, fieldOf(meta, 'sensitive')].some((value) => value === true || isYes(value) === true)
  if (hides || hasPolicyTag) return UNNAMED
  // A word that says something which is no class here is taken for more protection, never for less.
  if (said === null || LEVELS.indexOf(said) === 0 || said === '') return null
  return said === 'internal' ? null : UNNAMED
}

function isYes(value: unknown): boolean | null {
  const word = typeof value === 'string' ? value.trim().toLowerCase() : null
  if (word === null) return null
  if (['true', 'yes', 'y', '1'].includes(word)) return true
  return ['false', 'no', 'n', '0', '', 'none'].includes(word) ? false : null
}

function piiClass(kind: string): string {
  const word = kind
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^[0-9_]+|_+$/g, '')
    .slice(0, 60)
  return word === '' || word === 'pii' ? UNNAMED : `pii.${word.replace(/^pii_/, '')}`
}

/**
 * A level for product.yaml: what the model says, or the highest of what it is made of, which more readers than those may
 * not see; null where nothing is said that is one.
 */
export function productLevel(meta: Fields, inputs: readonly (string | null)[]): string | null {
  const said = textOf(fieldOf(meta, 'classification'))?.trim().toLowerCase() ?? ''
  const ranks = [LEVELS.indexOf(said), ...inputs.map((level) => LEVELS.indexOf(level ?? DEFAULT_LEVEL))]
  const highest = LEVELS[Math.max(...ranks)] ?? null
  return highest === DEFAULT_LEVEL && said !== DEFAULT_LEVEL ? null : highest
}

const DEFAULT_LEVEL = 'internal'

/** Whether a member reads it without a grant. */
export const isOpen = (level: string | null): boolean => LEVELS.indexOf(level ?? DEFAULT_LEVEL) <= 1
