import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inBrief, parseEdited } from './editing.ts'
import { exampleContext } from './examples.ts'
import { CONTRACT_KINDS, CONTRACT_WORDS } from './files/schema-contract.ts'
import { contractOf } from './schema-contract.ts'

const SHORT = 'on_schema_change: freeze'

async function parsed(written: string) {
  const { ok, ...found } = await parseEdited('customers', [['inputs', SHORT, written]])
  const contract = ok && 'manifests' in found ? contractOf(found.manifests.inputs[0] as never) : null
  return { contract, problems: 'problems' in found ? inBrief(found.problems) : [] }
}

/** Words that mean nothing of a kind, as the guide's table has them. */
const MEANINGLESS = ['tables quarantine_row', 'tables null_value', 'nullability null_value']

describe('the contract of an input', () => {
  it('has a word for each kind of change, and refuses those that mean nothing of it, with the reason', async () => {
    for (const kind of CONTRACT_KINDS) {
      for (const word of CONTRACT_WORDS) {
        const { contract, problems } = await parsed(`schema_contract: { ${kind}: ${word} }`)
        if (MEANINGLESS.includes(`${kind} ${word}`)) {
          assert.match(problems.join(), new RegExp(`schema_contract.${kind}: ${word} means nothing of ${kind}: .+`))
        } else {
          const others = Object.fromEntries(CONTRACT_KINDS.map((one) => [one, one === kind ? word : 'evolve']))
          assert.deepEqual([contract, problems], [others, []], `${kind}: ${word}`)
        }
      }
    }
  })

  it('stands before the short form, which holds for what it does not name', async () => {
    const mixed = await parsed('on_schema_change: fail\n    schema_contract: { types: null_value, tables: freeze }')
    assert.deepEqual(mixed.contract, { tables: 'freeze', columns: 'fail', types: 'null_value', nullability: 'fail' })
    const words = '{ tables: fail, columns: fail, types: fail, nullability: fail }'
    const idle = await parsed(`on_schema_change: evolve\n    schema_contract: ${words}`)
    assert.match(idle.problems.join(), /on_schema_change: "evolve" holds for nothing/)
    assert.match((await parsed('schema_contract: {}')).problems.join(), /schema_contract: says nothing/)
    assert.match((await parsed('on_schema_change: null_value')).problems.join(), /on_schema_change/)
  })

  it('is refused where rows cannot be chosen, and of what has no source', async () => {
    const edits = [['inputs', SHORT, 'schema_contract: { types: null_value, columns: freeze }']] as const
    const context = { ...exampleContext('customers'), distributed: true }
    const distributed = await parseEdited(
      'customers',
      [...edits, ['compute', 'engine: embedded', 'engine: distributed']],
      context,
    )
    const problems = 'problems' in distributed ? inBrief(distributed.problems) : []
    assert.match(
      problems.join('\n'),
      /engine: the input "customers" says types: null_value, and an engine outside reads rows as they lie/,
    )
    assert.doesNotMatch(problems.join('\n'), /columns: freeze/)
    const plain = await parseEdited('customers', [...edits, ['inputs', 'connection: shop', 'connection: sandbox']])
    assert.match(
      ('problems' in plain ? inBrief(plain.problems) : []).join('\n'),
      /schema_contract: is of tables that are read/,
    )
  })
})
