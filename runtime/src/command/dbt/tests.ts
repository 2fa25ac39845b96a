/** Which tests of a model become checks of its product. */
import type { CheckFields } from '../../manifest/files/quality.ts'
import { type DbtNode, fieldOf, textOf } from './artifacts.ts'
import { allowedOf, checkOf, countsRows, type Said } from './checks.ts'
import type { Judge } from './judge.ts'
import { judgedTables, type OutputColumn, type ReadInput } from './manifests.ts'
import type { NotCarried } from './not-carried.ts'
import { takeName } from './product-names.ts'
import { type Relation, rewritten } from './relations.ts'
import { type Dialect, nameText, SqlTextError } from './tokens.ts'

export interface TestContext {
  readonly model: DbtNode
  readonly columns: readonly OutputColumn[]
  readonly dialect: Dialect
  /** By test, what relationships refer to. */
  readonly compared: ReadonlyMap<string, string>
  /** Of the product, those among them that a test has added. */
  inputs(): readonly ReadInput[]
  /** Adds it where it is none yet; a text says why it cannot be one. */
  inputOf(id: string): Promise<ReadInput | string>
  relation(id: string, becomes: string): Relation
  readonly judge: Judge
}

export interface CarriedTests {
  readonly checks: readonly CheckFields[]
  readonly lost: readonly NotCarried[]
}

const LONGEST_NAME = 90

export async function testsOf(tests: readonly DbtNode[], context: TestContext): Promise<CarriedTests> {
  const checks: CheckFields[] = []
  const lost: NotCarried[] = []
  const taken = new Set<string>()
  for (const test of tests) {
    const allowed = allowedOf(test.config)
    const said = allowed === null ? 'its warn_if or error_if is no bound from below' : await saidBy(test, context)
    if (typeof said === 'string') lost.push({ node: test, reason: said })
    else {
      for (const { severity, failures } of allowed ?? []) {
        const name = takeName(checkName(test), taken)
        const bounds = {
          ...(severity === 'warn' ? { severity } : {}),
          ...(failures > 0 ? { threshold: failures } : {}),
        }
        checks.push({ name, ...described(test), ...bounds, ...said })
      }
    }
  }
  return { checks, lost }
}

/** Names of generic tests are made by dbt, and end with a sum where they are long. */
function checkName({ name }: DbtNode): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is replaced
  const plain = name.replaceAll(/[\u0000-\u0020\u007f-\u009f]+/g, '_').slice(0, LONGEST_NAME)
  return plain === '' ? 'test' : plain
}

const described = ({ description }: DbtNode) => (description === '' ? {} : { description: description.slice(0, 4000) })

/** A text says why there is none. */
async function saidBy(test: DbtNode, context: TestContext): Promise<Said | string> {
  const referred = context.compared.get(test.id)
  const other = referred === undefined ? null : await context.inputOf(referred)
  const said = checkOf(test, {
    column: (name) => context.columns.find((column) => column.name.toLowerCase() === name.toLowerCase()),
    compared: other === null || typeof other === 'string' ? null : other.input.name,
  })
  if (said !== null) return said
  if (typeof other === 'string') return other
  try {
    return await asSql(test, context)
  } catch (error) {
    if (error instanceof SqlTextError) return error.message
    throw error
  }
}

/** A name that no alias of an input is: those have no blanks. */
const THIS = 'this product'

async function asSql(
  test: DbtNode,
  { model, inputs, relation, dialect, judge, columns }: TestContext,
): Promise<Said | string> {
  if (test.compiled === null || test.compiled.trim() === '') return 'it is not compiled: run dbt compile'
  const own = inputs()
  const relations = (self: string) => [
    ...own.map(({ id, input }) => relation(id, nameText(input.name))),
    relation(model.id, self),
  ]
  const counted = (sql: string) => (countsRows(test.config) ? sql : countedBy(sql, test))
  if (/\{[{%]/.test(test.compiled)) return 'its compiled SQL holds a template'
  const tables = judgedTables(own)
  if (tables !== null) {
    const { sql } = rewritten(test.compiled, relations(nameText(THIS)), dialect)
    const judged = await judge(counted(sql), [...tables, { name: THIS, columns }])
    if (judged.refusal !== null)
      return `the engine does not take its SQL: ${judged.refusal.replaceAll(`"${THIS}"`, 'the product')}`
  }
  return { sql: `${counted(rewritten(test.compiled, relations('{{this}}'), dialect).sql).trim()}\n` }
}

function countedBy(sql: string, { config }: DbtNode): string {
  const calculated = textOf(fieldOf(config, 'fail_calc')) ?? 'count(*)'
  return `SELECT CAST(coalesce(${calculated}, 0) AS BIGINT) AS violations FROM (\n${sql}\n) AS failures`
}
