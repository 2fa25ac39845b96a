/** `sluice drift`: what the server has that a folder of products does not say. Nothing is written anywhere. */
import { painterFor } from './colours.ts'
import { type CommandCall, Ending, word } from './command.ts'
import { type Drift, driftsOf } from './drift-findings.ts'
import { readProducts } from './product-folders.ts'
import { plain } from './text-table.ts'

const DRIFTED = 2
const MOST_SHOWN = 80

export async function drift(call: CommandCall): Promise<Ending> {
  const config = await call.config()
  const products = await readProducts(word(call, 0, 'FOLDER'), config)
  const found = await driftsOf(await call.client(), products, config)
  const code = found.length === 0 ? 0 : DRIFTED
  if (call.args.flags['json']) return new Ending(code, { drifted: found.length > 0, drifts: found.map(json) }, null)
  const all = products.length === 1 ? 'the product' : `all ${products.length} products`
  if (found.length === 0)
    return new Ending(code, `Nothing has drifted: the server has ${all} as the folder says.`, null)
  const paint = painterFor(process.stdout)
  const lines = [...Map.groupBy(found, ({ product }) => product)].flatMap(([product, own]) => [
    `${plain(product)}:`,
    ...own.map(
      (one) =>
        `  ${paint(one.kind, one.kind === 'changed' || one.kind === 'draft_left' ? 'yellow' : 'red')}: ${words(one)}`,
    ),
  ])
  return new Ending(code, lines.join('\n'), null)
}

function words({ message, difference }: Drift): string {
  if (difference === undefined) return plain(message)
  const { manifest, key, folder, deployed } = difference
  const place = [`${manifest}.yaml`, ...(key === '' ? [] : [key])].join(' ')
  return plain(`${place}: ${valueText(folder)} in the folder, ${valueText(deployed)} deployed`)
}

function valueText(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value)
  return text.length <= MOST_SHOWN ? text : `${text.slice(0, MOST_SHOWN - 1)}…`
}

function json({ product, kind, message, difference }: Drift) {
  if (difference === undefined) return { product, kind, message }
  const { manifest, key, folder = null, deployed = null } = difference
  return { product, kind, message, file: `${manifest}.yaml`, key, folder, deployed }
}
