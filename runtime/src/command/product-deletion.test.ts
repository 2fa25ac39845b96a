import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CommandCall } from './command.ts'
import { deleteProduct } from './product-deletion.ts'

const PRODUCT = 'crm.people'

/** What comes of it: requests to the server, questions, and what is said in the end. */
async function come(flags: Readonly<Record<string, string>>, typed: string | null) {
  const requests: string[] = []
  const questions: string[] = []
  const request = async (method: string, path: string) => requests.push(`${method} ${path}`)
  const call = { words: [PRODUCT], args: { words: [PRODUCT], flags }, client: async () => ({ request }) }
  const ask = async (question: string) => {
    questions.push(question)
    return typed ?? ''
  }
  const said = await deleteProduct(call as unknown as CommandCall, { isTerminal: typed !== null, ask }).catch(
    (error: Error & { readonly remedy?: string }) => `${error.message} ${error.remedy ?? ''}`,
  )
  return { requests, questions: questions.length, said }
}

const GONE = [`DELETE /api/v1/products/${PRODUCT}`]

for (const [what, flags, typed, requests, questions, said] of [
  ['at a terminal, and its name is typed', {}, PRODUCT, GONE, 1, /^The product crm\.people is gone/],
  ['at a terminal, and something else is typed', {}, 'y', [], 1, /^nothing was done: it was not confirmed/],
  ['at a terminal, and nothing is typed', {}, '', [], 1, /^nothing was done: it was not confirmed/],
  ['without a terminal', {}, null, GONE, 0, /is gone/],
  ['without a terminal, and its name is there once more', { confirm: PRODUCT }, null, GONE, 0, /is gone/],
  ['at a terminal, and its name is there once more', { confirm: PRODUCT }, '', GONE, 0, /is gone/],
  ['and another is named', { confirm: 'crm.orders' }, PRODUCT, [], 0, /^--confirm crm\.orders is not the product/],
] as const) {
  test(`a product that is to be deleted, ${what}: ${requests.length === 1 ? 'it is' : 'it stays'}`, async () => {
    const came = await come(flags, typed)
    assert.deepEqual([came.requests, came.questions], [requests, questions])
    assert.match(came.said, said)
    assert.ok(!came.said.includes('--check'), 'it has no plan to look at')
  })
}
