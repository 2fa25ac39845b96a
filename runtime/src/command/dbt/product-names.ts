/** What models are called as products. */
import { nameRefusal } from '../../manifest/names.ts'

const MOST_LETTERS = 150

/** The name as the rules of names have it: `stg_shop__orders` becomes `stg_shop_orders`, `raw_orders` `dbt_raw_orders`. */
export function productName(written: string, what: 'name' | 'namespace'): string {
  const plain = written
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .slice(0, MOST_LETTERS)
    .replaceAll(/^_+|_+$/g, '')
  return nameRefusal(plain, what) === null ? plain : `dbt_${plain === '' ? 'model' : plain}`
}

/** The name, or the next with a number that nothing has yet; it is taken then. */
export function takeName(wanted: string, taken: Set<string>): string {
  let name = wanted
  for (let number = 2; taken.has(name.toLowerCase()); number += 1) name = `${wanted}_${number}`
  taken.add(name.toLowerCase())
  return name
}

const LONGEST_ALIAS = 55

/** A name by which a transform may call an input. */
export function aliasFor(written: string): string {
  const plain = written.replaceAll(/[^A-Za-z0-9_]+/g, '_').slice(0, LONGEST_ALIAS)
  if (plain.toLowerCase() === 'this') return 'this_input'
  return /^[A-Za-z_]/.test(plain) ? plain : `input_${plain}`
}
