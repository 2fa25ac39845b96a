/** Names and texts of strangers, as they may stand in a file of code. */
import { createHash } from 'node:crypto'
import { plainWords } from '../../operations/products/product-words.ts'

/** Names that types of the file have. Each is given once. */
export class TypeNames {
  readonly #taken: Set<string>
  readonly #shared: ReadonlySet<string>

  /**
   * @param text of code that the names stand beside: no word of it is given
   * @param products all of them: of two that would be called alike none is called so, whichever came first
   */
  constructor(text: string, products: readonly string[]) {
    this.#taken = new Set(text.match(/[A-Za-z_][A-Za-z0-9_]*/g))
    const names = products.map(pascalCase)
    this.#shared = new Set(names.filter((name, at) => names.indexOf(name) !== at))
  }

  /** The name, or with a mark of its own where another has it: `CrmPeopleRow_1f0c9a2b`. */
  take(product: string, suffix: string): string {
    const own = pascalCase(product)
    const wanted = `${own}${suffix}`
    const mark = createHash('sha256')
      .update(JSON.stringify([product, suffix]))
      .digest('hex')
      .slice(0, 8)
    const name = this.#shared.has(own) || this.#taken.has(wanted) ? `${wanted}_${mark}` : wanted
    this.#taken.add(name)
    return name
  }
}

/** `crm.people_2024` → `CrmPeople2024`. Letters that are none of ASCII are left out: two languages have to take them. */
function pascalCase(name: string): string {
  const words = name.split(/[^A-Za-z0-9]+/).filter((word) => word !== '')
  const joined = words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('')
  return /^[A-Za-z]/.test(joined) ? joined : `Product${joined}`
}

/** Signs that are seen as what they are: others could end a line, turn its direction, or not be seen at all. */
const UNSEEN = /[^ -~\p{L}\p{N}]/gu

/** A literal of TypeScript. */
export function scriptText(text: string): string {
  const quoted = JSON.stringify(text)
  return quoted.replace(UNSEEN, (sign) => sign.split('').map(unit).join(''))
}

/** A literal of Python, where a sign beyond 16 bits has an escape of its own. */
export function pythonText(text: string): string {
  const escaped = text.replace(/[\\"]/g, '\\$&').replace(UNSEEN, (sign) => {
    const point = sign.codePointAt(0) as number
    return point > 0xffff ? `\\U${point.toString(16).padStart(8, '0')}` : unit(sign)
  })
  return `"${escaped}"`
}

const unit = (sign: string): string => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`

/** One line that ends no comment. Behind words of ours: what a tool looks for at the start of a comment is not there. */
export const commentText = (text: string): string => plainWords(text).replace(/\*\//g, '* /')
