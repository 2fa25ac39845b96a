/** What is asked for every second and fails is told once, and again when it has worked in between: an hour fills no log. */
export class Outage {
  #isTold = false

  tell(say: () => void): void {
    if (!this.#isTold) say()
    this.#isTold = true
  }

  over(): void {
    this.#isTold = false
  }
}
