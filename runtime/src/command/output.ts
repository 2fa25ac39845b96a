/** What the command prints. Progress and failures go to standard error, so that pipes get the answer alone. */

/**
 * Rejects where standard output did not take the text: a full disk, or a reader who has gone. `console.log` keeps that to
 * itself, and the command would end well without having said anything.
 */
export function printOut(text: string): Promise<void> {
  watchOutput()
  return new Promise((resolve, reject) => {
    process.stdout.write(`${text}\n`, (error) =>
      error ? reject(Object.assign(error, { path: 'what is printed' })) : resolve(),
    )
  })
}

/** Whoever writes is told of a failure; without a listener it would end the process with a stack as well. */
export function watchOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    if (!stream.listeners('error').includes(ignored)) stream.on('error', ignored)
  }
}

function ignored(): void {
  // Said to whoever wrote.
}
