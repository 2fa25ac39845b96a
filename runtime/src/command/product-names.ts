/** Names of what is there, as a product and its columns may be called. */
import { columnRefusal, nameRefusal } from '../manifest/names.ts'
import { plainLetters } from './guessed-classes.ts'

/** Longer ones are hashed in stores: nobody wants to begin with that. */
const LONGEST_NAME = 63

const COLUMN = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/

/** `Customer-360 (raw)` → `customer_360_raw`; null where nothing of it can stay. */
export function nameFrom(text: string, what: 'name' | 'namespace'): string | null {
  let name = trimmed(plainLetters(text).toLowerCase().slice(0, 1000))
  // `raw_pg_orders` is `orders`: each step takes a prefix away that is not allowed.
  while (name !== '' && nameRefusal(name, what) !== null) {
    const rest = name.includes('_') ? name.slice(name.indexOf('_') + 1) : ''
    name = rest
  }
  return name === '' ? null : name
}

const trimmed = (text: string): string =>
  text
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^[0-9_]+/g, '')
    .slice(0, LONGEST_NAME)
    .replaceAll(/_+$/g, '')

/** What the folder says: its own name is the product's, the one above it the namespace's. */
export function namesOfFolder(folder: string): { readonly name: string | null; readonly namespace: string | null } {
  const parts = folder.split(/[/\\]+/).filter((part) => part !== '' && part !== '.' && part !== '..')
  const [above, own] = [parts.at(-2), parts.at(-1)]
  return {
    name: own === undefined ? null : nameFrom(own, 'name'),
    namespace: above === undefined ? null : nameFrom(above, 'namespace'),
  }
}

/** Why output.yaml cannot have a column of that name; null where it can. */
export function whyRenamed(name: string): string | null {
  if (columnRefusal(name) !== null) return columnRefusal(name)
  return COLUMN.test(name) ? null : 'has other characters than letters, digits and underscores, or is too long'
}

/** Names for columns, each its own whatever its case: as they are where they may be, else the nearest that may. */
export class ColumnNames {
  readonly #taken: Set<string>

  /** @param asTheyAre names of columns that keep theirs */
  constructor(asTheyAre: readonly string[]) {
    this.#taken = new Set(asTheyAre.map((name) => name.toLowerCase()))
  }

  has(name: string): boolean {
    return this.#taken.has(name.toLowerCase())
  }

  /** The name as it is, which no other gets then. */
  keep(name: string): string {
    this.#taken.add(name.toLowerCase())
    return name
  }

  nameFor(name: string): string {
    const letters = plainLetters(name)
      .replaceAll(/[^A-Za-z0-9]+/g, '_')
      .replaceAll(/^_+|_+$/g, '')
      .slice(0, LONGEST_NAME)
    const begun = letters === '' ? 'column' : /^[0-9]/.test(letters) ? `c_${letters}` : letters
    const allowed = columnRefusal(begun) === null ? begun : `source_${begun}`
    for (let count = 1; ; count += 1) {
      const suffix = count === 1 ? '' : `_${count}`
      const found = `${allowed.slice(0, LONGEST_NAME - suffix.length)}${suffix}`
      if (this.#taken.has(found.toLowerCase())) continue
      this.#taken.add(found.toLowerCase())
      return found
    }
  }
}
