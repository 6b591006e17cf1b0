// What the modules of the page share: what the server has, what is asked, and the parts that show it.

export const app = {
  server: null, // as it told of itself and its albums
  columns: [], // one for each album
  query: null, // {ids} for a photo of the album by its id in each column, or {file} for another; {label, name}
  refined: false, // whether the marks are part of the question
  browsed: 0, // the first place on the screen when all photos were shown last
  uploads: [], // photos from elsewhere that were searched with, for as long as the page is open
  slider: null,
  box: null,
  keeping: null, // the collections of the album, where there is one album and it can keep them
  learning: null, // what the album learns from them
  people: null, // the people of the album, where there is one album and it shows them
  filters: null, // which photos are looked at, where there is one album
  browsing: null, // their order, the months to go to, and how large they are, where there is one album
  copies: null, // photos that are there more than once, where there is one album
  selection: null, // photos that are selected to do one thing with all of them, where there is one album
};

// The names of the albums, as a title has them.
export const names = (albums) => albums.map((album) => album.name);

// Whether the list of this column is the photos of a person.
export const isOfPerson = (column) => column?.question?.person !== undefined && app.people !== null;

// Whether marks are for this search alone: no album keeps them, or somebody said that nothing is to be kept.
export function marksForNow() {
  const { keeping, query } = app;
  return keeping === null || (query !== null && query.isForNow && keeping.collections.chosen === null);
}
