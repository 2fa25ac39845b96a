/** What becomes of a product's rows when the shape of an input changes: a word for each kind of change. */
import type { InputFields } from './files/inputs.ts'
import { CONTRACT_KINDS, CONTRACT_WORDS, type ContractKind, type ContractWord } from './files/schema-contract.ts'
import type { Input } from './manifest-set.ts'
import type { Finding, Path } from './problem.ts'

export type SchemaContract = Readonly<Record<ContractKind, ContractWord>>

/** A word of the contract itself counts for more than the short form. */
export function contractOf({ schemaContract, onSchemaChange }: Pick<Input, 'schemaContract' | 'onSchemaChange'>) {
  const words = CONTRACT_KINDS.map((kind) => [kind, schemaContract?.[kind] ?? onSchemaChange] as const)
  return Object.fromEntries(words) as unknown as SchemaContract
}

/** Whether the shape of the table may become any other without a word. */
export function takesAnyShape(input: Pick<Input, 'schemaContract' | 'onSchemaChange'>): boolean {
  const { columns, types, nullability } = contractOf(input)
  return [columns, types, nullability].every((word) => word === 'evolve')
}

/** `tables: fail, columns: freeze, types: evolve, nullability: evolve` */
export function contractText(contract: SchemaContract): string {
  return CONTRACT_KINDS.map((kind) => `${kind}: ${contract[kind]}`).join(', ')
}

/** Words that cannot mean anything, with why. */
const MEANINGLESS: Readonly<Record<ContractKind, Readonly<Partial<Record<ContractWord, string>>>>> = {
  tables: {
    quarantine_row: 'a table that is gone has no rows that could be put aside',
    null_value: 'a table that is gone has no values that could become null',
  },
  columns: {},
  types: {},
  nullability: { null_value: 'a value that is missing is null already: evolve takes it' },
}

/** Of one input: words without a meaning, and short forms that say nothing. */
export function contractFindings(path: Path, value: InputFields): readonly Finding[] {
  const { schema_contract: contract, on_schema_change: short } = value
  if (contract === undefined) return []
  const finding = (at: Path, message: string, hint: string): Finding => ({
    manifest: 'inputs',
    path: [...path, ...at],
    message,
    hint,
  })
  const findings = CONTRACT_KINDS.flatMap((kind) => {
    const word = contract[kind]
    const reason = word === undefined ? undefined : MEANINGLESS[kind][word]
    if (reason === undefined) return []
    const hint = `Write one of ${wordsFor(kind).join(', ')}.`
    return [finding(['schema_contract', kind], `${word} means nothing of ${kind}: ${reason}`, hint)]
  })
  if (CONTRACT_KINDS.every((kind) => contract[kind] === undefined)) {
    const hint = `Name one of ${CONTRACT_KINDS.join(', ')}, or use on_schema_change.`
    findings.push(finding(['schema_contract'], 'says nothing', hint))
  }
  if (short !== undefined && CONTRACT_KINDS.every((kind) => contract[kind] !== undefined)) {
    const message = `"${short}" holds for nothing: schema_contract has a word for each kind of change`
    findings.push(finding(['on_schema_change'], message, 'Remove it, or words of schema_contract that are the same.'))
  }
  if (value.connection === SANDBOX) {
    findings.push(
      finding(
        ['schema_contract'],
        'is of tables that are read from a source, and whoever writes a plain table decides what it holds',
        'Remove it. on_schema_change judges the columns and types of a plain table.',
      ),
    )
  }
  return findings
}

const SANDBOX = 'sandbox'

/** Rows are chosen and values changed by the embedded engine alone: one outside reads the tables as they lie. */
export function distributedRefusals(inputs: readonly Pick<Input, 'name' | 'schemaContract'>[]): readonly string[] {
  return inputs.flatMap(({ name, schemaContract = {} }) =>
    CONTRACT_KINDS.flatMap((kind) => {
      const word = schemaContract[kind]
      if (word !== 'quarantine_row' && word !== 'null_value') return []
      return [`the input "${name}" says ${kind}: ${word}, and an engine outside reads rows as they lie`]
    }),
  )
}

function wordsFor(kind: ContractKind): readonly ContractWord[] {
  return CONTRACT_WORDS.filter((word) => MEANINGLESS[kind][word] === undefined)
}
