/** One run of the program, from its start to its end, as messages. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ConnectorHost, ProgramRequest, RunningProgram } from '@sluice/sdk'
import { addressRefused, answerInvalid, endedEarly, noPrograms, reported, silent, stopIfAborted } from './failure.ts'
import { LineSplitter, type Message, messageOf } from './messages.ts'
import type { AirbyteSource } from './settings.ts'

export const CONFIG_FILE = 'config.json'
/** Of a program that has closed its output. */
const END_MS = 30_000

/**
 * Yields what it says, talk left out. Returns once it has ended well; throws what it says of its failure, or how it ended. Whoever stops
 * iterating ends it. It must bring news within the source's limit, whatever it talks meanwhile.
 */
export async function* messagesOf(
  source: AirbyteSource,
  { programs }: Pick<ConnectorHost, 'programs'>,
  command: { readonly words: ProgramRequest['words']; readonly files?: Readonly<Record<string, string>> },
  caller: AbortSignal,
): AsyncGenerator<Exclude<Message, { type: 'talk' | 'error' | 'control' }>> {
  stopIfAborted(caller)
  if (programs === undefined) throw noPrograms()
  const files = { [CONFIG_FILE]: source.config, ...command.files }
  const needed = command.words.flatMap((word) => (typeof word === 'string' ? [] : [word.file]))
  const given = Object.fromEntries(Object.entries(files).filter(([name]) => needed.includes(name)))
  const running = await programs.start({ program: source.program, words: command.words, files: given }, caller)
  let isSilent = false
  const onSilence = () => {
    isSilent = true
    running.stop()
  }
  let silence = setTimeout(onSilence, source.silenceMs)
  const isCatalog = command.words[0] === 'discover'
  const lines = new LineSplitter(isCatalog)
  let failure: Parameters<typeof reported>[0] | null = null
  try {
    for await (const chunk of running.output) {
      for (const line of lines.take(chunk)) {
        const message = messageOf(line)
        if (message.type === 'talk') continue
        if (message.type === 'error') {
          failure ??= message.failure
          continue
        }
        if (message.type === 'control') throw controlRefused()
        clearTimeout(silence)
        yield message
        silence = setTimeout(onSilence, source.silenceMs)
      }
    }
    stopIfAborted(caller)
    if (isSilent) throw silent(source.silenceMs)
    const end = await endOf(running)
    if (end.how === 'exited' && end.code === 0 && failure === null) {
      lines.end()
      return
    }
    if (end.addressRefused) throw addressRefused()
    if (end.how === 'lost' && caller.aborted) stopIfAborted(caller)
    throw failure === null || end.how === 'memory' ? endedEarly(end) : reported(failure)
  } finally {
    clearTimeout(silence)
    running.stop()
  }
}

async function endOf(running: RunningProgram) {
  const late = new AbortController()
  const stop = sleep(END_MS, undefined, { signal: late.signal }).then(
    () => running.stop(),
    () => undefined,
  )
  try {
    return await running.ended
  } finally {
    late.abort()
    await stop
  }
}

function controlRefused() {
  return answerInvalid(
    'it wants to change its config, as for a secret that serves once, which connections here do not take',
  )
}
