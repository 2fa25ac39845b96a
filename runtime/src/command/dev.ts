/** `sluice dev`: a plan and a preview of each product of a folder at each save. */
import { setTimeout as sleep } from 'node:timers/promises'
import { listed, UsageError } from './arguments.ts'
import { openClient } from './client.ts'
import { painterFor } from './colours.ts'
import { type CommandCall, Ending, word } from './command.ts'
import { type DevChoices, type DevRound, isAway, isRefused, type Planned, roundOf } from './dev-round.ts'
import { roundText } from './dev-text.ts'
import { inWords } from './failures.ts'
import { stateOf, untilSaved } from './folder-watch.ts'
import { printOut } from './output.ts'
import { plainLines } from './text-table.ts'

const REFUSED = 1
const DEFAULT_ROWS = 10
const MOST_ROWS = 100
/** Between two tries to reach a server that is away. */
const AWAY_MS = 2_000

/** Ends after one round with `--once`; else it goes on until the process is ended. */
export async function dev(call: CommandCall): Promise<Ending> {
  const root = word(call, 0, 'FOLDER')
  const choices = choicesOf(call)
  const planned: Planned = new Map()
  // Anew for each round: a server that was started again may be at another address, and tokens end.
  const look = async () =>
    roundOf(root, await call.config(), () => openClient(call.args, call.config), choices, planned)
  if (call.args.flags['once']) return onceOf(call, withProducts(await look()))
  for (let state = await stateOf(root), isFirst = true; ; isFirst = false) {
    await tellRound(call, look, isFirst)
    state = await untilSaved(root, state)
  }
}

function choicesOf({ args }: CommandCall): DevChoices {
  const { rows: text = String(DEFAULT_ROWS) } = args.flags
  const rows = Number(text)
  if (!/^\d{1,3}$/.test(text) || rows < 1 || rows > MOST_ROWS)
    throw new UsageError(`--rows is a number from 1 to ${MOST_ROWS}, and not "${text}"`)
  return { rows, lower: listed(args, 'lower'), breaks: listed(args, 'breaks') }
}

function withProducts(round: DevRound): DevRound {
  if (round.products.length + round.problems.length > 0) return round
  throw new UsageError('the folder has no product: no folder in it has a product.yaml')
}

function onceOf({ args }: CommandCall, round: DevRound): Ending {
  const said = args.flags['json'] ? json(round) : roundText(round, painterFor(process.stdout))
  return new Ending(isRefused(round) ? REFUSED : 0, said, null)
}

/** What is wrong is said, and the watch goes on; while the server is away it is asked again. Of the first round the caller is told. */
async function tellRound(call: CommandCall, look: () => Promise<DevRound>, isFirst: boolean): Promise<void> {
  for (let isTold = false; ; ) {
    let round: DevRound
    try {
      round = await look()
    } catch (error) {
      if (error instanceof UsageError && isFirst) throw error
      if (!isTold) process.stderr.write(`sluice: ${plainLines(inWords(error))}\n`)
      if (!isAway(error)) return
      if (!isTold) process.stderr.write('Waiting for it.\n')
      isTold = true
      await sleep(AWAY_MS)
      continue
    }
    return print(call, isFirst ? withProducts(round) : round)
  }
}

async function print({ args }: CommandCall, round: DevRound): Promise<void> {
  if (round.products.length + round.problems.length === 0) return
  if (args.flags['json']) return printOut(JSON.stringify(json(round)))
  const at = new Date().toTimeString().slice(0, 8)
  await printOut(`\n${at}\n${roundText(round, painterFor(process.stdout))}`)
}

/** As the guide says it; nothing of it is taken away within a major version. */
function json(round: DevRound): unknown {
  return {
    refused: isRefused(round),
    problems: round.problems,
    products: round.products.map(
      ({ product, folder, deployed, version, answer, preview, refusal, withoutPreview }) => ({
        product,
        folder,
        deployed_version: deployed,
        version,
        digest: answer?.digest ?? null,
        plan: answer?.plan ?? null,
        preview,
        refusal,
        without_preview: withoutPreview?.message ?? null,
      }),
    ),
  }
}
