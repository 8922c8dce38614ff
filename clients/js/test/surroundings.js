/** Lets a test say which words the platform's random source gives, and what time it is.
 *
 * It must be loaded before anything of the client, which takes the source once. Nothing of the kind
 * is in the package. A page may load it as a plain script.
 */
if (globalThis.scripted === undefined) {
  const source = globalThis.crypto;
  const fill = source.getRandomValues.bind(source);
  const clock = Date.now.bind(Date);
  /** `words` gives the next word, `now` is in seconds; null is the real one. */
  const scripted = { words: null, now: null };
  const filled = (array) => {
    if (scripted.words === null || !(array instanceof BigUint64Array)) return fill(array);
    array[0] = scripted.words();
    return array;
  };
  Object.defineProperty(source, "getRandomValues", { value: filled });
  Date.now = () => (scripted.now === null ? clock() : 1000 * scripted.now);
  globalThis.scripted = scripted;
}
